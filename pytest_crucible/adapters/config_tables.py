"""Tables of a project's configuration: `[NAME]` of crucible.toml, or `[tool.crucible.NAME]` of pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import TooDeep, parse


def read_table(root: Path, name: str) -> Mapping[str, Any]:
    """Return the table `[NAME]` of crucible.toml, or `[tool.crucible.NAME]` of pyproject.toml; empty without one."""
    return next((table for _, table in list_tables(root, name)), {})


def read_prices(root: Path) -> Any:
    """Return the table `[prices]` next to the adapters, unchecked; None without one. Raises SpecError."""
    own, project = root / "crucible.toml", root / "pyproject.toml"
    if own.is_file():
        return _toml(own).get("prices")
    if project.is_file():
        return _table(_toml(project).get("tool", {}), "crucible", project).get("prices")
    return None


def list_tables(root: Path, name: str) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """Yield the table of crucible.toml, else of pyproject.toml. They are not merged, so that only one file counts."""
    own, project = root / "crucible.toml", root / "pyproject.toml"
    if own.is_file():
        yield own, _table(_toml(own), name, own)
    elif project.is_file():
        crucible = _table(_toml(project).get("tool", {}), "crucible", project)
        yield project, _table(crucible, name, project)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return cast(dict[str, Any], parse(tomllib.loads, path.read_text(encoding="utf-8")))
    except TooDeep as error:
        raise SpecError(f"{path} {error}: flatten its values") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from error


def _table(inside: Mapping[str, Any], name: str, source: Path) -> Mapping[str, Any]:
    value = inside.get(name, {})
    if not isinstance(value, dict):
        expected = "one table an adapter, as in [adapters.v2]" if name == "adapters" else f"a table, as in [{name}]"
        raise SpecError(f"{source} has {name} = {value!r}: write {expected}")
    return value
