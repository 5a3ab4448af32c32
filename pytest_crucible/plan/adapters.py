"""The adapters of a project: the table `[adapters]` of crucible.toml, or `[tool.crucible.adapters]` of pyproject.toml.
`uri = "..."` stands for a backend and where its model is; an adapter with nothing else may be written `v2 = "..."`.

[adapters.v2]
backend = "recorded"
path = "answers/v2.jsonl"
parameters = { temperature = 0.0 }
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter

ASKING = ("timeout_s", "retries", "limit", "hedge", "cache", "price")
"""Settings of an adapter that are not its backend's: they say how it is asked, and never what it answers."""
ENSEMBLE = "ensemble"
"""The backend of adapters that name other ones under this key."""
URI_OPTIONS = {"recorded": "path", "local": "checkpoint", "tinker": "model_path"}
"""Backends that an adapter can name in a URI such as `recorded:answers/v2.jsonl`, and what that is among their settings."""
SERVER = "openai+"
"""Before the URL of a server: `openai+http://HOST:PORT/v1#MODEL`."""
SERVERS = (f"{SERVER}http", f"{SERVER}https")
_URI = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]*):(?P<rest>.+)")


def read_adapters(root: Path) -> dict[str, Adapter]:
    """All configured adapters by name, from the directory of pytest's own configuration."""
    return {
        name: _adapter(name, table, source)
        for source, tables in _tables(root, "adapters")
        for name, table in tables.items()
    }


def read_prices(root: Path) -> Any:
    """The table `[prices]` beside the adapters, as it is written."""
    own, project = root / "crucible.toml", root / "pyproject.toml"
    if own.is_file():
        return _toml(own).get("prices")
    if project.is_file():
        return _table(_toml(project).get("tool", {}), "crucible", project).get("prices")
    return None


def find_adapter(name: str, adapters: Mapping[str, Adapter]) -> Adapter:
    """The adapter of that name, or the one that a URI such as `recorded:answers/v2.jsonl` describes.

    Raises SpecError with the nearest names for one that is neither, and for a server without a model.
    """
    if name in adapters:
        return adapters[name]
    uri = _URI.fullmatch(name)
    if name.startswith(SERVER) or (uri and uri["scheme"] in URI_OPTIONS):
        backend, options = _of_uri(name, name)
        return Adapter(name=name, backend=backend, options=options)
    raise SpecError(f"adapter {name!r} is not configured: {_known(name, adapters)}")


def _of_uri(uri: str, adapter: str) -> tuple[str, dict[str, Any]]:
    """The backend that a URI names, and what it says of it. A path of Tinker's keeps its scheme, which is part of it."""
    scheme, _, rest = uri.partition(":")
    if not uri.startswith(SERVER):
        return scheme, {URI_OPTIONS[scheme]: uri if scheme == "tinker" else rest}
    url, _, model = uri.removeprefix(SERVER).partition("#")
    if not model:
        raise SpecError(f"adapter {adapter!r} names no model: write {SERVER}{url}#MODEL")
    return "openai", {"base_url": url, "model": model}


def _known(name: str, adapters: Mapping[str, Adapter]) -> str:
    if not adapters:
        return "add a table [adapters.NAME] to crucible.toml, or [tool.crucible.adapters.NAME] to pyproject.toml"
    near = difflib.get_close_matches(name, adapters, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known adapters are {', '.join(sorted(adapters))}"


def read_table(root: Path, name: str) -> Mapping[str, Any]:
    """The table `[NAME]` of crucible.toml, or `[tool.crucible.NAME]` of pyproject.toml; empty where there is none."""
    return next((table for _, table in _tables(root, name)), {})


def _tables(root: Path, wanted: str) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """crucible.toml wins over pyproject.toml, whole: two files that add up would hide which one is meant."""
    own, project = root / "crucible.toml", root / "pyproject.toml"
    if own.is_file():
        yield own, _table(_toml(own), wanted, own)
    elif project.is_file():
        crucible = _table(_toml(project).get("tool", {}), "crucible", project)
        yield project, _table(crucible, wanted, project)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from error


def _table(inside: Mapping[str, Any], name: str, source: Path) -> Mapping[str, Any]:
    value = inside.get(name, {})
    if not isinstance(value, dict):
        wanted = "one table an adapter, as in [adapters.v2]" if name == "adapters" else f"a table, as in [{name}]"
        raise SpecError(f"{source} has {name} = {value!r}: write {wanted}")
    return value


def _adapter(name: str, table: Any, source: Path) -> Adapter:
    options = {"uri": table} if isinstance(table, str) else dict(table) if isinstance(table, dict) else {}
    if "uri" in options:
        options = _with_uri(name, options, source)
    backend, parameters = options.pop("backend", None), options.pop("parameters", {})
    if ENSEMBLE in options and backend is not None:
        raise SpecError(
            f"adapter {name!r} in {source} has backend = {backend!r} and an ensemble: it is one or the other"
        )
    if ENSEMBLE in options:
        backend = ENSEMBLE
    if not isinstance(backend, str) or not isinstance(parameters, dict):
        raise SpecError(f'adapter {name!r} in {source} needs backend = "..." and, if any, parameters = {{ ... }}')
    asking = {word: options.pop(word) for word in ASKING if word in options}
    return Adapter(name=name, backend=backend, options=options, parameters=parameters, asking=asking)


def _with_uri(name: str, options: dict[str, Any], source: Path) -> dict[str, Any]:
    """A table in which the URI is spelt out."""
    uri = options.pop("uri")
    scheme = uri.partition(":")[0] if isinstance(uri, str) and _URI.fullmatch(uri) else ""
    known = (*URI_OPTIONS, *SERVERS)
    if scheme not in known or "backend" in options:
        raise SpecError(
            f"adapter {name!r} in {source} has uri {uri!r}: write {', '.join(f'{one}:...' for one in known)}, "
            "and no backend beside it"
        )
    backend, told = _of_uri(uri, name)
    return {**options, "backend": backend, **told}
