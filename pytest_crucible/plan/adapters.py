"""The adapters of a project: the table `[adapters]` of crucible.toml, or `[tool.crucible.adapters]` of pyproject.toml.

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

_URI = re.compile(r"(?P<scheme>[a-z][a-z0-9+.\-]*):(?P<rest>.+)")


def read_adapters(root: Path) -> dict[str, Adapter]:
    """All configured adapters by name, from the directory of pytest's own configuration."""
    return {name: _adapter(name, table, source) for source, tables in _tables(root) for name, table in tables.items()}


def find_adapter(name: str, adapters: Mapping[str, Adapter], schemes: Iterable[str]) -> Adapter:
    """The adapter of that name, or the one that a URI such as `recorded:answers/v2.jsonl` describes.

    Raises SpecError with the nearest names for one that is neither.
    """
    if name in adapters:
        return adapters[name]
    uri = _URI.fullmatch(name)
    if uri and uri["scheme"] in schemes:
        return Adapter(name=name, backend=uri["scheme"], options={"path": uri["rest"]})
    raise SpecError(f"adapter {name!r} is not configured: {_known(name, adapters)}")


def _known(name: str, adapters: Mapping[str, Adapter]) -> str:
    if not adapters:
        return "add a table [adapters.NAME] to crucible.toml, or [tool.crucible.adapters.NAME] to pyproject.toml"
    near = difflib.get_close_matches(name, adapters, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}known adapters are {', '.join(sorted(adapters))}"


def _tables(root: Path) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """crucible.toml wins over pyproject.toml, whole: two files that add up would hide which one is meant."""
    own, project = root / "crucible.toml", root / "pyproject.toml"
    if own.is_file():
        yield own, _table(_toml(own), "adapters", own)
    elif project.is_file():
        crucible = _table(_toml(project).get("tool", {}), "crucible", project)
        yield project, _table(crucible, "adapters", project)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from error


def _table(inside: Mapping[str, Any], name: str, source: Path) -> Mapping[str, Any]:
    value = inside.get(name, {})
    if not isinstance(value, dict):
        raise SpecError(f"{source} has {name} = {value!r}: write one table an adapter, as in [adapters.v2]")
    return value


def _adapter(name: str, table: Any, source: Path) -> Adapter:
    options = dict(table) if isinstance(table, dict) else {}
    backend, parameters = options.pop("backend", None), options.pop("parameters", {})
    if not isinstance(backend, str) or not isinstance(parameters, dict):
        raise SpecError(f'adapter {name!r} in {source} needs backend = "..." and, if any, parameters = {{ ... }}')
    return Adapter(name=name, backend=backend, options=options, parameters=parameters)
