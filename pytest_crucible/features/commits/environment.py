"""The Python of a commit: today's, or an environment that is built once; and the folders that sessions have left behind."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_crucible.features.commits import FEATURE
from pytest_crucible.features.commits.repository import find_repository
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import file_lock

LOCK, PROJECT, REQUIREMENTS = "uv.lock", "pyproject.toml", "requirements.txt"
FILES = (LOCK, REQUIREMENTS, PROJECT)
"""The files that say what is installed, from the most exact one on."""
_LINES = 8  # the last lines of an installer's output have its reason
_GROUPS = ("dev", "test", "tests", "testing")
"""Groups and extras of a project that usually have what its tests need."""
Read = Callable[[str], bytes | None]
"""Returns the content of a file below the top of a tree; None without it."""


@dataclass(frozen=True)
class Dependencies:
    """The files of one tree that say what is installed."""

    folder: PurePosixPath
    """Their folder below the top of the tree."""
    file: str
    """The one that decides; empty without one."""
    digest: str
    """Hash of all that changes the environment: a new version of the project itself does not."""
    python: str = ""
    """The versions of Python that the project allows."""

    @property
    def is_uv(self) -> bool:
        return self.file == LOCK


def find_dependencies(read: Read, folder: PurePosixPath) -> Dependencies:
    """Return the dependencies of the tests in a folder: the nearest file that names some, up to the top of the tree.

    Raises SpecError for a file that is not TOML.
    """
    folders = [folder, *folder.parents]
    for file in FILES:
        for place in folders:
            contents = {name: read(str(place / name)) for name in FILES}
            content = contents[file]
            if content is not None and (file != PROJECT or "project" in _toml(content, place / file)):
                return _describe(place, file, contents)
    return Dependencies(folder, "", "")


def _describe(place: PurePosixPath, file: str, contents: dict[str, bytes | None]) -> Dependencies:
    content, project = contents[file] or b"", _toml(contents[PROJECT] or b"", place / PROJECT)
    table = project.get("project", {})
    facts: Any = content.decode("utf-8", "replace")
    if file == LOCK:
        facts = _read_lock(_toml(content, place / file))
    elif file == PROJECT:
        facts = [table.get(name) for name in ("dependencies", "optional-dependencies")]
        facts += [project.get("dependency-groups"), project.get("build-system")]
    python = table.get("requires-python") or ""
    # TOML has dates, which JSON has not.
    text = json.dumps([file, facts, python], sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Dependencies(place, file, digest, python)


def _toml(content: bytes, path: PurePosixPath) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except ValueError as error:
        raise SpecError(f"{path} is not valid TOML: {error}") from error


def _read_lock(lock: dict[str, Any]) -> Any:
    """Return what a lock file installs, without the version of the project itself."""
    packages = [dict(package) for package in lock.get("package", ())]
    for package in packages:
        if {"editable", "virtual", "directory"} & set(package.get("source", {})):
            package.pop("version", None)
    return [packages, lock.get("requires-python")]


def requirements_of(project: dict[str, Any]) -> list[str]:
    """Return the packages that a pyproject.toml names, with those of its groups and extras for tests."""
    table = project.get("project", {})
    names = list(table.get("dependencies", ()))
    for groups in (table.get("optional-dependencies", {}), project.get("dependency-groups", {})):
        names += [name for group in _GROUPS for name in groups.get(group, ()) if isinstance(name, str)]
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Interpreter:
    """The Python of a commit."""

    path: str
    file: str = ""
    """The file that its environment was built from; empty for today's Python."""
    built_in: Path | None = None
    """The worktree in which it was built: packages that are installed from their source point there."""


@dataclass(frozen=True)
class Builder:
    """Builds the environments of commits in a folder, each once."""

    folder: Path
    show: Callable[[str], None]
    """Shows a line, because building takes a while."""

    def find_interpreter(self, name: str, commit: Dependencies, today: Dependencies, tree: Path) -> Interpreter:
        """Return the Python of a commit, whose files are in a tree. Raises SpecError."""
        if commit.digest == today.digest or not commit.file:
            return Interpreter(sys.executable)
        if not commit.is_uv:
            _check_python(name, commit.python)
        key = f"{commit.digest[:16]}-{sys.version_info.major}.{sys.version_info.minor}"
        place = self.folder / key
        with file_lock(self.folder / f"{key}.lock", lambda: self.show(f"waiting for the environment of {name}")):
            # Written last, so that a build that was interrupted is done again.
            done = place / "complete"
            if not done.exists():
                self.show(f"building the environment of {name} from its {commit.file}")
                shutil.rmtree(place, ignore_errors=True)
                _build(name, commit, place, tree / commit.folder)
                done.write_text(str(tree), encoding="utf-8")
            # An environment that is used stays when old ones are removed.
            os.utime(done)
        return Interpreter(str(_python(place)), commit.file, Path(done.read_text(encoding="utf-8")))


def _python(place: Path) -> Path:
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _build(name: str, commit: Dependencies, place: Path, folder: Path) -> None:
    if commit.is_uv:
        if shutil.which("uv") is None:
            raise SpecError(f"{name} has a {LOCK}, and uv is not installed: install uv (https://docs.astral.sh/uv)")
        # The project itself is imported from the worktree, whose place is another one in each session.
        command = ["uv", "sync", "--frozen", "--no-install-project", "--project", str(folder)]
        _install(name, commit.file, command, folder, {"UV_PROJECT_ENVIRONMENT": str(place)})
        return
    _install(name, commit.file, [sys.executable, "-m", "venv", str(place)], folder)
    if commit.file == REQUIREMENTS:
        packages: Sequence[str] = ["-r", REQUIREMENTS]
    else:
        packages = requirements_of(_toml((folder / PROJECT).read_bytes(), PurePosixPath(PROJECT)))
    if packages:
        pip = [str(_python(place)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        _install(name, commit.file, pip, folder)


def _install(
    name: str, file: str, command: Sequence[str], folder: Path, variables: dict[str, str] | None = None
) -> None:
    """Run an installer. Raises SpecError with the last lines of its output."""
    # A path of this process would hide that a package is missing there.
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**inherited, **(variables or {})}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        lines = [line.rstrip() for line in output.splitlines() if line.strip()][-_LINES:]
        raise SpecError(
            f"{name}: the environment of its {file} cannot be built:" + "".join(f"\n    {line}" for line in lines)
        )


def _check_python(name: str, allowed: str) -> None:
    """Raise SpecError for a project that does not allow this Python."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    version = ".".join(map(str, sys.version_info[:3]))
    with contextlib.suppress(InvalidSpecifier):
        if version not in SpecifierSet(allowed):
            raise SpecError(
                f"{name} needs Python {allowed}, and this is {version}: run pytest with such a Python, or give the commit a "
                f"{LOCK}, with which uv installs one"
            )


def find_unused(folder: Path, before: float) -> Iterator[Path]:
    """Yield the environments that no session has used since a time; seconds since 1970."""
    for done in folder.glob("*/complete"):
        if done.stat().st_mtime < before:
            yield done.parent


def find_leftovers(folder: Path, before: float) -> dict[Path, int]:
    """Return folder -> bytes of what no session needs: `folder` has the files of the project."""
    return {place: _size(place) for place in _find(folder, before)}


def _find(folder: Path, before: float) -> Iterator[Path]:
    yield from find_unused(folder / FEATURE.name, before)
    # A project without git has no worktrees.
    with contextlib.suppress(SpecError):
        repository = find_repository(folder.resolve().parent, FEATURE.name)
        for tree in repository.orphans():
            # Git's own record of a worktree is a folder, too.
            yield from (tree.parent, repository.record_of(tree))


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
