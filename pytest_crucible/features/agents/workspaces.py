"""Workspaces: a directory for each unit, filled before its function is called and removed when its state has been scored.

@pytest.mark.environment(setup=make_database, files="fixtures/repo")
async def test_fix(sample, endpoint, workspace): ...
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pytest_crucible.features.agents.commands import Command, check_words, run_command
from pytest_crucible.features.agents.copies import copy_tree, hash_tree, remove_tree
from pytest_crucible.features.agents.session_lines import show_line
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Outcome, Sample, Unit
from pytest_crucible.records.errors import SpecError, suggest
from pytest_crucible.records.function_source import sources
from pytest_crucible.score import Scored
from pytest_crucible.session.experiment import BoundUnit, ExperimentDraft
from pytest_crucible.session.experiment_checks import check_fixture

Step: TypeAlias = "Callable[[Path, Sample], Any] | str | Sequence[str]"
WORKSPACE, ENVIRONMENT = "workspace", "environment"
# A set-up that takes longer hangs: most make a database, or install a package.
MOST_STEP_S = 600.0
_KEEPS = ("failed",)


@dataclass(frozen=True, kw_only=True)
class EnvironmentMark:
    """The arguments of `@pytest.mark.environment`."""

    setup: Step | None = None
    """A function of the workspace and the sample, or a command that runs in the workspace."""
    teardown: Step | None = None
    files: str | os.PathLike[str] | None = None
    """A directory whose files are copied, or one file; beside the suite, or from the root directory."""
    keep: str | None = None
    """`failed` keeps the workspaces of units that are lost, have failed, or have a score of False."""

    @classmethod
    def of_item(cls, item: pytest.Item) -> EnvironmentMark:
        """Return the arguments of an item's marker. Raises SpecError."""
        mark = item.get_closest_marker(ENVIRONMENT)
        if mark is None:
            return cls()
        names = [field.name for field in fields(cls)]
        for name in mark.kwargs:
            if name not in names:
                raise SpecError(f"@pytest.mark.environment has no argument {name!r}: {suggest(name, names)}")
        if mark.args:
            raise SpecError("@pytest.mark.environment takes its arguments by name, for example setup=make_database")
        return cls(**mark.kwargs).check()

    def check(self) -> EnvironmentMark:
        """Return the arguments. Raises SpecError for invalid ones."""
        for name, step in (("setup", self.setup), ("teardown", self.teardown)):
            if step is not None and not callable(step):
                try:
                    check_words(shlex.split(step) if isinstance(step, str) else step)
                except (TypeError, ValueError) as error:
                    raise SpecError(
                        f"@pytest.mark.environment has {name}={step!r}: write a function (workspace, sample), or a command"
                    ) from error
        if self.keep is not None and self.keep not in _KEEPS:
            raise SpecError(f"@pytest.mark.environment has keep={self.keep!r}: write keep='failed', or leave it out")
        return self


@dataclass(eq=False)
class Workspace:
    """The directory of one unit."""

    path: Path
    bound: BoundUnit

    def __post_init__(self) -> None:
        _LIVE[self.path] = self


_LIVE: dict[Path, Workspace] = {}
_CURRENT: ContextVar[Workspace | None] = ContextVar("crucible_workspace", default=None)


def owner_of(folder: Path) -> Outcome | None:
    """Return the outcome of the unit in whose workspace a directory is; None for any other directory."""
    resolved = folder.resolve()
    owners = (space.bound.outcome for path, space in _LIVE.items() if resolved.is_relative_to(path))
    return next(owners, None)


def current_workspace() -> Path | None:
    """Return the workspace of the unit that is scored; None without one."""
    space = _CURRENT.get()
    return space.path if space is not None and space.path in _LIVE else None


def bind_workspace(draft: ExperimentDraft) -> None:
    """Add the argument `workspace` to the draft. Raises SpecError."""
    check_fixture(draft.item, WORKSPACE)
    spaces = Workspaces(draft.config, draft.item, EnvironmentMark.of_item(draft.item))
    draft.arguments[WORKSPACE] = spaces.bind
    draft.sampling["environment"] = spaces.describe()
    draft.on_scored.append(spaces.release)
    draft.config.add_cleanup(spaces.close)


@dataclass(eq=False)
class Workspaces:
    """The workspaces of one experiment."""

    config: pytest.Config
    item: pytest.Function
    mark: EnvironmentMark
    _open: list[Workspace] = field(default_factory=list)
    _root: Path | None = None
    _lock: int | None = None
    _has_kept: bool = False

    def __post_init__(self) -> None:
        self.files = None if self.mark.files is None else self._find(os.fspath(self.mark.files))

    def describe(self) -> list[str]:
        """Return what the workspaces begin with: replies to other files, or after another set-up, are other ones."""
        files = [] if self.files is None else [hash_tree(self.files)]
        setup = self.mark.setup
        return [*files, *(sources(setup) if callable(setup) else [repr(setup)])]

    def _find(self, name: str) -> Path:
        beside = self.item.path.parent / name
        path = beside if beside.exists() else self.config.rootpath / name
        if not path.exists():
            raise SpecError(f"@pytest.mark.environment has files={name!r}: there is no such directory or file")
        return path.resolve()

    def bind(self, bound: BoundUnit) -> Path:
        """Return the workspace of a unit, which is filled before its function is called."""
        space = Workspace(self._path(bound), bound)
        self._open.append(space)
        bound.on_open.append(partial(self._fill, space))
        _CURRENT.set(space)
        return space.path

    def _path(self, bound: BoundUnit) -> Path:
        """Return the path of a unit's directory: the same in each run, for an agent may put it into its prompts."""
        if self._root is None:
            self._root, self._lock = claim_root(f"{self.config.rootpath}\0{self.item.nodeid}")
        experiment, unit = bound.experiment, bound.unit
        name = f"{bound.sample.id}\0{experiment.repeat(unit)}\0{experiment.plan.arms[unit.arm].name}"
        path = self._root / hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:10]
        # A late variant calls the function several times.
        return next(
            place for k in range(len(_LIVE) + 1) if (place := path.with_suffix(f".{k}" if k else "")) not in _LIVE
        )

    async def _fill(self, space: Workspace) -> None:
        """Copy the files and run the set-up. A failure loses the unit: it is the world's, not the arm's."""
        outcome = space.bound.outcome
        try:
            await asyncio.to_thread(_make, space.path, self.files)
        except Exception as error:
            outcome.lost, outcome.detail = (
                "error",
                f"the workspace of {space.bound.sample.id!r:.200} cannot be made: {error}",
            )
            return
        if problem := await self._run_step("setup", space):
            outcome.lost, outcome.detail = "error", problem

    async def _run_step(self, name: str, space: Workspace) -> str:
        """Run the set-up or the teardown of a unit; return why it failed, or an empty text."""
        step: Step | None = getattr(self.mark, name)
        if step is None:
            return ""
        called = step.__name__ if callable(step) and hasattr(step, "__name__") else str(step)
        try:
            async with asyncio.timeout(MOST_STEP_S):
                problem = await _run(step, space.path, space.bound.sample)
        except TimeoutError:
            problem = f"not done after {MOST_STEP_S:g} s"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        return problem and f"{name} {called} of sample {space.bound.sample.id!r:.200} failed: {problem}"

    async def release(self, unit: Unit, outcome: Outcome | None, scored: Scored | None) -> None:
        """Tear the workspaces of a unit down, and remove them unless they are kept."""
        spaces = [space for space in self._open if space.bound.unit == unit]
        for space in spaces:
            self._open.remove(space)
            if problem := await self._run_step("teardown", space):
                show_line(self.config, problem)
            _LIVE.pop(space.path, None)
            if self.mark.keep == "failed" and _has_failed(outcome, scored):
                self._keep()
            else:
                await asyncio.to_thread(remove_tree, space.path)

    def _keep(self) -> None:
        if not self._has_kept:
            self._has_kept = True
            show_line(
                self.config, f"{self.item.name}: workspaces of failed samples are in {self._root}, until the next run"
            )

    def close(self) -> None:
        """Remove what is left of the workspaces, but those that are kept."""
        for space in self._open:
            _LIVE.pop(space.path, None)
            remove_tree(space.path)
        if self._root is not None and not self._has_kept:
            remove_tree(self._root)
        if self._lock is not None:
            os.close(self._lock)
        self._root = self._lock = None


def _has_failed(outcome: Outcome | None, scored: Scored | None) -> bool:
    if outcome is None or scored is None or outcome.lost or outcome.failure:
        return True
    observations, lost = scored
    return bool(lost) or any(each.value is False for each in observations)


def _make(path: Path, files: Path | None) -> None:
    if path.exists():
        remove_tree(path)
    path.mkdir(mode=0o700)
    if files is not None:
        copy_tree(files, path)


async def _run(step: Step, workspace: Path, sample: Sample) -> str:
    """Call a function, or run a command in the workspace; return why the command failed, or an empty text."""
    if callable(step):
        returned = (
            step(workspace, sample)
            if inspect.iscoroutinefunction(step)
            else await asyncio.to_thread(step, workspace, sample)
        )
        if inspect.isawaitable(returned):
            await returned
        return ""
    words = shlex.split(step) if isinstance(step, str) else list(step)
    result, ended = await run_command(Command(words=words, cwd=workspace, variables=dict(os.environ)), MOST_STEP_S)
    if ended or result.exit_status:
        return ended or f"exit status {result.exit_status}: {(result.errors or result.output).strip()[-500:]}"
    return ""


def claim_root(name: str) -> tuple[Path, int | None]:
    """Return an empty directory of this user for a name, and the lock on it; another one while a process has it.

    What a killed process has left there is removed.
    """
    if sys.platform == "win32":
        return Path(tempfile.mkdtemp(prefix="crucible-workspaces-")).resolve(), None
    import fcntl

    base = Path(tempfile.gettempdir()).resolve() / f"crucible-workspaces-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    status = base.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o170077 != 0o040000:
        return Path(tempfile.mkdtemp(prefix="crucible-workspaces-")).resolve(), None
    root = base / hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:12]
    lock = os.open(f"{root}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return Path(tempfile.mkdtemp(prefix="crucible-workspaces-")).resolve(), None
    if root.exists():
        remove_tree(root)
    root.mkdir(mode=0o700, exist_ok=True)
    return root, lock
