"""The adapters of a project: the table `[adapters]` of crucible.toml, or `[tool.crucible.adapters]` of pyproject.toml.
`uri = "..."` stands for a backend and where its model is; an adapter with nothing else may be written `v2 = "..."`.

[adapters.v2]
backend = "recorded"
path = "answers/v2.jsonl"
parameters = { temperature = 0.0 }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.adapter_kind import AdapterKind, ReadUri
from pytest_crucible.adapters.config_tables import list_tables, read_table
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.feature_rows import NamedAdapter, backend_key, find_maker, find_names, pop_settings
from pytest_crucible.adapters.kinds import all_kinds
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.serialize import canonical

ASKING = ("timeout_s", "retries", "limit", "hedge", "cache", "price", "max_reply_bytes")
"""Settings of every adapter: they change how requests are sent, and, apart from `max_reply_bytes`, never the replies."""
_URI = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]*):(?P<rest>.+)")


def read_adapters(root: Path) -> dict[str, Adapter]:
    """Return all configured adapters by name, each family before its members.

    `root` is the directory of pytest's configuration. Raises SpecError.
    """
    return {
        adapter.name: adapter
        for source, tables in list_tables(root, "adapters")
        for name, table in tables.items()
        for adapter in _with_members(name, table, source)
    }


def describe_table(root: Path, name: str) -> str:
    """Return a table of the configuration as text, with the adapters that it names, such as a judge; empty without one."""
    table = read_table(root, name)
    if not table:
        return ""
    named = {part.get("adapter") for part in table.values() if isinstance(part, Mapping)}
    adapters = {key: adapter for key, adapter in read_adapters(root).items() if key in named}
    return canonical([table, adapters])


def resolve_name(name: str, adapters: Mapping[str, Adapter], context: AdapterContext) -> NamedAdapter:
    """Return the adapter that a name means: a configured adapter, one that a feature knows by its name, or that of a URI.

    Raises SpecError for an unknown name.
    """
    # A configured name comes first, although a feature may know it, too.
    names = None if name in adapters else find_names(name, context.is_left_out)
    named = (
        names.find(name, context) if names else NamedAdapter(find_adapter(name, adapters), is_uri=name not in adapters)
    )
    return replace(named, maker=find_maker(named.adapter, context.is_left_out))


def find_adapter(name: str, adapters: Mapping[str, Adapter]) -> Adapter:
    """Return the adapter with that name, or the one that a URI such as `recorded:answers/v2.jsonl` names.

    Raises SpecError with the nearest names for an unknown name, and for a server without a model.
    """
    # A configured name comes first, although it may look like a URI.
    if name in adapters:
        return adapters[name]
    named = _kind_of_uri(name)
    if named is not None:
        kind, read = named
        return Adapter(name=name, backend=kind.name, options=read(name, name))
    raise SpecError(f"adapter {name!r} is not configured: {_suggest(name, adapters)}")


def _kind_of_uri(uri: str) -> tuple[AdapterKind, ReadUri] | None:
    """Return the kind of adapter that a URI names, and what reads its options; None for a text that names none."""
    parts = _URI.fullmatch(uri)
    forms = [(kind, kind.uri) for kind in all_kinds().values() if kind.uri]
    return next(((kind, form.read) for kind, form in forms if parts and form.matches(parts["scheme"])), None)


def _suggest(name: str, adapters: Mapping[str, Adapter]) -> str:
    if name.startswith(("http://", "https://")):
        return f"write openai+{name}#MODEL for a model of a server"
    if not adapters:
        return (
            "no adapter is configured in this folder: run pytest in the folder of the suite, or add a table [adapters.NAME] to "
            "crucible.toml, or [tool.crucible.adapters.NAME] to pyproject.toml"
        )
    # A family may have many members, whose names follow from its own.
    families = [family for family, adapter in adapters.items() if find_maker(adapter) is not None]
    named = sorted(other for other in adapters if not other.startswith(tuple(f"{family}[" for family in families)))
    return suggest(name, adapters, always=f"known adapters are {', '.join(named)}")


def _with_members(name: str, table: Any, source: Path) -> Iterator[Adapter]:
    """Yield the adapter and, where its table stands for further ones, these."""
    adapter = read_adapter(name, table, source)
    yield adapter
    maker = find_maker(adapter)
    if maker is not None:
        yield from maker.expand(adapter, table, source)


def read_adapter(name: str, table: Any, source: Path) -> Adapter:
    """Return the adapter of a table in a configuration file. Raises SpecError."""
    options = {"uri": table} if isinstance(table, str) else dict(table) if isinstance(table, dict) else {}
    if "uri" in options:
        options = _with_uri(name, options, source)
    backend, parameters = options.pop("backend", None), options.pop("parameters", {})
    key = backend_key(options)
    if key is not None and backend is not None:
        raise SpecError(f"adapter {name!r} in {source} has backend = {backend!r} and {key} = [...]: write one of them")
    backend = backend if key is None else key
    if not isinstance(backend, str) or not isinstance(parameters, dict):
        raise SpecError(f'adapter {name!r} in {source} needs backend = "..." and, if any, parameters = {{ ... }}')
    trained_on = _read_trained_on(name, options.pop("trained_on", ()), source)
    variables = _read_variables(name, options.pop("variables", {}), source)
    settings = pop_settings(name, backend, options, source)
    # What is left are the options of the adapter's kind, which its own module checks.
    asking = {word: options.pop(word) for word in ASKING if word in options}
    return Adapter(
        name=name,
        backend=backend,
        options=options,
        parameters=parameters,
        asking=asking,
        trained_on=trained_on,
        variables=variables,
        settings=settings,
    )


def _read_variables(name: str, value: Any, source: Path) -> Mapping[str, Any]:
    """Return the variables for test functions. Raises SpecError."""
    if not isinstance(value, dict):
        raise SpecError(
            f'adapter {name!r} in {source} has variables = {value!r}: write a table, variables = {{ prompt = "terse.txt" }}'
        )
    prompt = value.get("prompt", "text")
    if not isinstance(prompt, str) or not prompt.strip():
        raise SpecError(
            f"adapter {name!r} in {source} has variables.prompt = {prompt!r}: write the name of a file, or the text itself"
        )
    return value


def _read_trained_on(name: str, value: Any, source: Path) -> tuple[str, ...]:
    """Return the declared training files. Raises SpecError."""
    files = (value,) if isinstance(value, str) else value
    if not isinstance(files, list | tuple) or not all(isinstance(file, str) for file in files):
        raise SpecError(
            f'adapter {name!r} in {source} has trained_on = {value!r}: write a list of files, ["old.jsonl"]'
        )
    return tuple(files)


def _with_uri(name: str, options: dict[str, Any], source: Path) -> dict[str, Any]:
    """Return the options with those that the URI stands for in its place."""
    uri = options.pop("uri")
    kinds = {scheme: kind for kind in all_kinds().values() if kind.uri for scheme in kind.uri.schemes}
    named = _kind_of_uri(uri) if isinstance(uri, str) else None
    # A scheme has to match exactly here: a misspelt one in a file is an error before any server is called.
    if named is None or uri.partition(":")[0] not in kinds or "backend" in options:
        raise SpecError(
            f"adapter {name!r} in {source} has uri {uri!r}: write {', '.join(f'{scheme}:...' for scheme in kinds)}, "
            "and no backend beside it"
        )
    kind, read = named
    return {**options, "backend": kind.name, **read(uri, name)}
