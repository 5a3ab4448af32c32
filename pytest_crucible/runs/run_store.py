"""The run store of a command: the one that a session would use here, opened if it exists."""

from __future__ import annotations

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import iniconfig

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.serialize import TooDeep, parse
from pytest_crucible.records.settings import DEFAULT_STORE

if TYPE_CHECKING:
    from pytest_crucible.records import Run
    from pytest_crucible.store.runs import RunStore


@contextlib.contextmanager
def existing_store(where: str, *, reader: str = "") -> Iterator[RunStore]:
    """Open an existing run store; opening a missing path would create an empty one. Raises SpecError and StoreError.

    `reader` is a command that only reads, for messages. It can read a store that may not be written, such as an artifact of CI.
    """
    # A database URL cannot be checked without connecting; opening it reports the error.
    if "://" not in where and not Path(where).is_file():
        raise SpecError(_describe_missing(Path(where)))
    if reader and "://" not in where and not _is_writable(Path(where)):
        with open_for_reading(where, reader) as store:
            yield store
        return
    # Imported here: every command has the option --store, and a database library takes long to load.
    from pytest_crucible.store.runs import RunStore

    with contextlib.closing(RunStore(where)) as store:
        yield store


_READING: list[RunStore] = []
"""The stores that are open for reading alone."""


@contextlib.contextmanager
def open_for_reading(where: str, reader: str) -> Iterator[RunStore]:
    """Open a run store that no statement can change. Raises SpecError and StoreError.

    `reader` is the command that reads, for messages. While the context is open, `store_of` a run in this store yields it too.
    """
    from pytest_crucible.store.runs import RunStore

    is_missing = "://" not in where and not Path(where).exists()
    if is_missing and (near := _find_near(Path(where))):
        raise SpecError(f"{where} does not exist, but {str(near)!r} does: go there, or name that one with --store")
    with contextlib.closing(RunStore(where, reader=reader)) as store:
        _READING.append(store)
        try:
            yield store
        finally:
            _READING.remove(store)


@contextlib.contextmanager
def store_of(run: Run) -> Iterator[RunStore]:
    """Open the store that a run is in. Where it is open for reading alone, nothing is opened beside that. Raises StoreError."""
    from pytest_crucible.store.runs import RunStore

    reading = next((store for store in _READING if store.location == run.store), None)
    if reading is not None:
        yield reading
        return
    with contextlib.closing(RunStore(run.store)) as store:
        yield store


def _is_writable(path: Path) -> bool:
    # SQLite writes a log beside the file.
    return os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)


def _describe_missing(where: Path) -> str:
    """Return where the store was looked for, and the one that is near."""
    problem = f"no run store at {str(where)!r}" + ("" if where.is_absolute() else f" in {str(Path.cwd())!r}")
    near = _find_near(where)
    if near is None:
        return f"{problem}: run a suite first, or name another store"
    return f"{problem}, but one at {str(near)!r}: go there, or name that one"


def _find_near(where: Path) -> Path | None:
    """Return the store in a parent folder, or else in a folder below, where pytest's root directory may be."""
    if where.is_absolute():
        return None
    here = Path.cwd()
    above = (folder / where for folder in here.parents)
    below = (path for pattern in (f"*/{where}", f"*/*/{where}") for path in sorted(here.glob(pattern)))
    return next((path for path in (*above, *below) if path.is_file()), None)


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


def session_equal_inputs() -> str:
    """Return the setting `crucible_equal_inputs` of a session that starts here. Raises SpecError."""
    setting = str(find_configuration(Path.cwd())[1].get("crucible_equal_inputs") or "group")
    if setting not in ("group", "keep"):
        raise SpecError(f"crucible_equal_inputs = {setting!r} in pytest's configuration: write group or keep")
    return setting


def find_configuration(here: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return pytest's root directory for `here`, and the configuration that it reads there."""
    folders = (here, *here.parents)
    for path in (folder / name for folder in folders for name in FILES if (folder / name).is_file()):
        configuration = _pytest_table(path)
        if configuration is not None:
            return path.parent, configuration
    # Without a table of its own, the nearest pyproject.toml still marks the root; then a setup.py does.
    marks = [folder / name for name in ("pyproject.toml", "setup.py") for folder in folders]
    return next((mark.parent for mark in marks if mark.is_file()), here), {}


def project_root() -> Path:
    """Return pytest's root directory for this folder: configuration and weights are below it."""
    return find_configuration(Path.cwd())[0]


def _pytest_table(path: Path) -> Mapping[str, Any] | None:
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
