"""The commits of a session: resolved once, checked out when a test needs them, and removed when the session ends."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pytest_crucible.adapters.context import AdapterContext, files_folder
from pytest_crucible.features.commits import FEATURE, is_commit
from pytest_crucible.features.commits.environment import Builder, Interpreter, find_dependencies
from pytest_crucible.features.commits.process import CommitProcess, Message, Start, Test, find_test, start_process
from pytest_crucible.features.commits.repository import SHORT, Repository, find_repository
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.secret_settings import is_secret_variable
from pytest_crucible.session.markers import sends_requests
from pytest_crucible.signs import is_experiment
from pytest_crucible.stats.number_format import quantity

ENVIRONMENTS = FEATURE.name
"""The folder of environments, beside the run store."""
# What pytest and its plugins have set for today's tests.
_OF_PYTEST = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
_PREFIX = "crucible-commit-"


@dataclass(eq=False)
class Commits:
    """The commits that are arms of a session. Most of it runs in the main thread, before the first request."""

    config: pytest.Config
    context: AdapterContext
    items: Sequence[pytest.Item]
    shas: dict[str, str]
    """SHA by the arm's name. Workers have those of their controller."""
    _opened: dict[str, Commit] = field(default_factory=dict)

    @cached_property
    def repository(self) -> Repository:
        """The repository of the suite. Raises SpecError."""
        name = next(name for name in self.context.settings.compare if is_commit(name))
        repository = find_repository(self.config.rootpath, name)
        repository.remove_orphans()
        return repository

    @cached_property
    def changed_files(self) -> list[str]:
        """The files of the working tree that are in no commit."""
        return self.repository.changed_files()

    def resolve(self, name: str) -> str:
        """Return the SHA of the commit that an arm names. Raises SpecError where it is today's code."""
        sha = self.shas.get(name) or self.repository.resolve(name)
        self.shas[name] = sha
        if sha == self.repository.resolve("HEAD") and not self.changed_files:
            raise SpecError(
                f"{name} is {sha[:SHORT]}, and nothing in the working tree differs from it: compare with another commit, such "
                "as commit:HEAD~1"
            )
        return sha

    def open(self, name: str) -> Commit:
        """Return a commit, checked out and with its process. Raises SpecError, each time the same."""
        if name not in self._opened:
            self._opened[name] = Commit(name, self)
        self._opened[name].ready()
        return self._opened[name]

    def describe(self, name: str) -> str:
        """Return the code of an arm: `working tree (3 files changed)`, or a commit."""
        if name in self.shas:
            return self.shas[name][:SHORT]
        changed = len(self.changed_files)
        return f"working tree ({quantity(changed, 'file')} changed)" if changed else "working tree (no file changed)"

    def close(self) -> None:
        """End all processes, and remove all worktrees."""
        for commit in self._opened.values():
            commit.close()
        self._opened.clear()

    # -- today's tree -----------------------------------------------------------------------------------------------------

    @cached_property
    def subfolder(self) -> PurePosixPath:
        """The folder of pytest's configuration below the top of the repository."""
        top = self.repository.folder.resolve()
        return PurePosixPath(self.config.rootpath.resolve().relative_to(top).as_posix())

    @cached_property
    def experiments(self) -> list[pytest.Function]:
        """The selected tests that are experiments."""
        return [item for item in self.items if isinstance(item, pytest.Function) and is_experiment(item)]

    @cached_property
    def removed_keys(self) -> list[str]:
        """The variables of keys that the processes do not get, since their functions send requests to the arm."""
        if not all(sends_requests(item.fixturenames) for item in self.experiments):
            return []
        return sorted(filter(is_secret_variable, os.environ))


class Commit:
    """A commit that is checked out, with its environment and the process that runs its functions."""

    def __init__(self, name: str, commits: Commits) -> None:
        self.name, self._commits = name, commits
        self._folder: Path | None = None
        self._problem: SpecError | None = None
        self._process: CommitProcess | None = None
        self._ready: Message = {}
        self._lock = threading.Lock()
        self.interpreter = Interpreter("")

    def ready(self) -> None:
        """Check the commit out and start its process, once. Raises SpecError."""
        if self._problem is None and self._folder is None:
            try:
                self._open()
            except SpecError as error:
                self._problem = error
        if self._problem is not None:
            raise self._problem

    def running(self) -> CommitProcess:
        """Return the process, started again if it has ended. Raises SpecError."""
        with self._lock:
            assert self._process is not None
            if self._process.has_ended:
                self._process, self._ready = start_process(self.name, self._start)
            return self._process

    def find_test(self, item: pytest.Function) -> Test:
        """Return the function of a test in the commit. Raises SpecError without one."""
        test = find_test(self._ready, item.nodeid)
        if test is not None:
            return test
        path, errors = item.nodeid.partition("::")[0], self._ready["errors"]
        if path in errors:
            reason = [line for line in errors[path].splitlines() if line.strip()][-1].removeprefix("E").strip()
            raise SpecError(f"{self.name}: {path} cannot be imported there: {reason}")
        raise SpecError(f"{self.name} has no {item.originalname}: name one with --compare=commit:REV")

    def close(self) -> None:
        """End the process, and remove the worktree."""
        if self._process is not None:
            self._process.close()
        if self._folder is not None:
            self._commits.repository.remove_worktree(self._tree)
            shutil.rmtree(self._folder, ignore_errors=True)

    # -- opening ---------------------------------------------------------------------------------------------------------

    @property
    def _tree(self) -> Path:
        assert self._folder is not None
        # A name of its own: git's record of a worktree has it, and two sessions may add one at the same moment.
        return self._folder / self._folder.name

    def _open(self) -> None:
        commits = self._commits
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        commits.repository.add_worktree(self._tree, commits.shas[self.name])
        top = commits.repository.folder
        there = find_dependencies(_reader(self._tree), commits.subfolder)
        today = find_dependencies(_reader(top), commits.subfolder)
        folder = files_folder(commits.config.rootpath, commits.context.settings.store) / ENVIRONMENTS
        builder = Builder(folder, commits.context.progress.write)
        self.interpreter = builder.find_interpreter(self.name, there, today, self._tree)
        self._start = self._describe_start()
        self._process, self._ready = start_process(self.name, self._start)

    def _describe_start(self) -> Start:
        commits, root = self._commits, self._tree / self._commits.subfolder
        assert self._folder is not None
        files = {item.path.resolve().relative_to(commits.config.rootpath.resolve()) for item in commits.experiments}
        trees = [commits.repository.folder, *filter(None, [self.interpreter.built_in])]
        settings: dict[str, Any] = {
            "trees": list(map(str, trees)),
            "worktree": str(self._tree),
            "folders": [
                str(folder) for folder in (root, root / "src", self._tree, self._tree / "src") if folder.is_dir()
            ],
            "arguments": ["-s", "-q", f"--rootdir={root}", *_forward_options(commits.config)],
            "files": sorted(str(root / file) for file in files if (root / file).is_file()),
        }
        if not settings["files"]:
            raise SpecError(f"{self.name} has no {min(files)}: name a commit that has it with --compare=commit:REV")
        place = self._place_of(commits.config.invocation_params.dir)
        folder = place if place is not None and place.is_dir() else root
        return Start(self.interpreter.path, folder, self._environment(), settings, self._folder / "output")

    def _place_of(self, path: Path) -> Path | None:
        """Return the place of a path of the working tree in the worktree; None for any other path."""
        with contextlib.suppress(ValueError):
            return self._tree / path.resolve().relative_to(self._commits.repository.folder.resolve())
        return None

    def _environment(self) -> Mapping[str, str]:
        removed = set(self._commits.removed_keys)
        return {
            name: value for name, value in os.environ.items() if name not in removed and not name.startswith(_OF_PYTEST)
        }


def _reader(top: Path) -> Callable[[str], bytes | None]:
    def read(path: str) -> bytes | None:
        with contextlib.suppress(OSError):
            return (top / path).read_bytes()
        return None

    return read


def _forward_options(config: pytest.Config) -> list[str]:
    """Return the plugins and settings of this session's command line: those of files are in the worktree."""
    arguments = list(config.invocation_params.args)
    pairs = itertools.pairwise(arguments)
    return [word for option, value in pairs if option in ("-p", "-o") for word in (option, str(value))]
