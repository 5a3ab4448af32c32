"""`crucible_store` as a session would read it here: pytest's configuration file, found and parsed without importing pytest."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import iniconfig

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.nesting import TooDeep, parse
from pytest_crucible.records.settings import DEFAULT_STORE

# Searched in pytest's order: https://docs.pytest.org/en/stable/reference/customize.html#finding-the-rootdir
FILES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
# Files that mark the root directory even when they are empty; the others need a table for pytest.
ALWAYS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")


def session_store(folder: Path | None = None) -> str:
    """Return the run store of a session that starts in `folder` (default: here): a URL, or a path from its root directory.

    Raises SpecError for a configuration file that cannot be parsed.
    """
    here = Path.cwd() if folder is None else folder
    root, configuration = find_configuration(here)
    where = str(configuration.get("crucible_store") or DEFAULT_STORE)
    return where if "://" in where or root == here else str(root / where)


def find_configuration(here: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return pytest's root directory for `here`, and the configuration that it reads there."""
    folders = (here, *here.parents)
    for path in _existing(folders):
        configuration = _pytest_table(path)
        if configuration is not None:
            return path.parent, configuration
    # Without a table of its own, the nearest pyproject.toml still marks the root; then a setup.py does.
    marks = [folder / name for name in ("pyproject.toml", "setup.py") for folder in folders]
    return next((mark.parent for mark in marks if mark.is_file()), here), {}


def _existing(folders: tuple[Path, ...]) -> Iterator[Path]:
    return (folder / name for folder in folders for name in FILES if (folder / name).is_file())


def _pytest_table(path: Path) -> Mapping[str, Any] | None:
    """Return the table that configures pytest in this file; None if the file does not configure it."""
    try:
        table = _toml_table(path) if path.suffix == ".toml" else _ini_section(path)
    except TooDeep as error:
        raise SpecError(f"pytest's configuration {str(path)!r} {error}: flatten its values") from None
    except (tomllib.TOMLDecodeError, iniconfig.ParseError, UnicodeDecodeError) as error:
        raise SpecError(f"pytest's configuration {str(path)!r} cannot be read: {error}") from error
    return {} if table is None and path.name in ALWAYS else table


def _toml_table(path: Path) -> Mapping[str, Any] | None:
    document: dict[str, Any] = parse(tomllib.loads, path.read_text(encoding="utf-8"))
    if path.name != "pyproject.toml":
        return document.get("pytest")
    table = document.get("tool", {}).get("pytest", {})
    own = {name: value for name, value in table.items() if name != "ini_options"}  # [tool.pytest], since pytest 9
    return own or table.get("ini_options")


def _ini_section(path: Path) -> Mapping[str, Any] | None:
    sections = iniconfig.IniConfig(str(path), data=path.read_text(encoding="utf-8"))
    name = "tool:pytest" if path.suffix == ".cfg" else "pytest"
    return dict(sections[name].items()) if name in sections else None
