"""The git repository of a suite: revisions, what has changed since, and worktrees that leave no trace."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_crucible.features.commits import PREFIX, is_commit
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

# A hook of git, from which tests may run, sets these: commands would use its index, and another worktree.
_OF_HOOKS = re.compile(r"GIT_(DIR|WORK_TREE|INDEX_FILE|PREFIX|COMMON_DIR|OBJECT_DIRECTORY|NAMESPACE)$")
_OWNER = "pytest-crucible"
# Written by tests and not by users.
_BY_TESTS = re.compile(r"(^|/)(\.crucible|__pycache__|\.pytest_cache)/")
SHORT = 7
"""Characters of a commit in texts, as git itself shows them."""


@dataclass(frozen=True)
class Repository:
    """A repository, with its working tree."""

    folder: Path
    """The top of the working tree."""

    def run(self, *arguments: str) -> str:
        """Return the output of a git command. Raises SpecError with git's last line."""
        return run_git(self.folder, *arguments)

    def resolve(self, name: str) -> str:
        """Return the SHA of the commit that an arm names, such as `commit:HEAD~1`. Raises SpecError."""
        revision = name.removeprefix(PREFIX)
        sha = self._find(revision)
        if sha is None:
            raise SpecError(f"{name}: unknown revision{self._remedy(revision)}")
        return sha

    def _find(self, revision: str) -> str | None:
        with contextlib.suppress(SpecError):
            return (
                self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").strip()
                or None
            )
        return None

    def _remedy(self, revision: str) -> str:
        if not revision:
            return ": write --compare=commit:REV, such as commit:HEAD~1 or commit:main"
        if self._find(f"origin/{revision}") is not None:
            return f": did you mean commit:origin/{revision}?"
        if self.run("rev-parse", "--is-shallow-repository").strip() == "true":
            return (
                " in this shallow clone: fetch more of its history, with `git fetch --unshallow`, or `fetch-depth: 0` of "
                "actions/checkout"
            )
        return ""

    def changed_files(self) -> list[str]:
        """Return the files that differ from the last commit, with new ones that git does not ignore."""
        names = self.run("diff", "--name-only", "-z", "HEAD") + self.run(
            "ls-files", "-z", "--others", "--exclude-standard"
        )
        return sorted({name for name in names.split("\0") if name and not _BY_TESTS.search(name)})

    def read(self, sha: str, path: str) -> bytes | None:
        """Return a file of a commit; None where the commit does not have it."""
        with contextlib.suppress(SpecError):
            return self.run("show", f"{sha}:{path}").encode("utf-8", "surrogateescape")
        return None

    # -- worktrees ------------------------------------------------------------------------------------------------------

    def add_worktree(self, folder: Path, sha: str) -> None:
        """Check a commit out into a new folder. Raises SpecError."""
        # Hooks of the user, such as post-checkout, are for the user's own checkouts.
        self.run("-c", f"core.hooksPath={os.devnull}", "worktree", "add", "--detach", "--quiet", str(folder), sha)
        # A later session sees whether its owner lives; and git's own cleaning leaves it alone.
        self.run("worktree", "lock", "--reason", f"{_OWNER} {os.getpid()} {socket.gethostname()}", str(folder))

    def remove_worktree(self, folder: Path) -> None:
        """Remove a worktree, and git's record of it."""
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(SpecError):
            # Twice, because it is locked.
            self.run("worktree", "remove", "--force", "--force", str(folder))

    def remove_orphans(self) -> None:
        """Remove the worktrees of sessions that were killed."""
        for folder in self.orphans():
            self.remove_worktree(folder)
            with contextlib.suppress(OSError):
                shutil.rmtree(folder.parent)

    def record_of(self, folder: Path) -> Path:
        """Return the folder in which git keeps a worktree."""
        records = Path(self.run("rev-parse", "--path-format=absolute", "--git-common-dir").strip()) / "worktrees"
        pointed = {path.read_text().strip(): path.parent for path in records.glob("*/gitdir")}
        return pointed[str(folder / ".git")]

    def orphans(self) -> Iterator[Path]:
        """Yield the worktrees whose sessions have been killed on this machine."""
        for block in self.run("worktree", "list", "--porcelain").split("\n\n"):
            facts = dict(line.partition(" ")[::2] for line in block.splitlines())
            owner, _, rest = facts.get("locked", "").partition(" ")
            number, _, host = rest.partition(" ")
            if owner == _OWNER and host == socket.gethostname() and number.isdigit() and not _is_alive(int(number)):
                yield Path(facts["worktree"])


def _is_alive(process: int) -> bool:
    # On Windows a signal of 0 would end the process.
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it exists, and belongs to another user
        return True
    return True


def git_environment() -> Mapping[str, str]:
    """Return the environment without what a hook of git has set for itself."""
    return {name: value for name, value in os.environ.items() if not _OF_HOOKS.match(name)}


def run_git(folder: Path, *arguments: str) -> str:
    """Return the output of a git command in a folder. Raises SpecError with its last line of errors."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, env=git_environment(), stdin=subprocess.DEVNULL
        )
    except OSError as error:
        raise SpecError(
            f"git cannot be started ({error.strerror or error}): install it, or compare adapters"
        ) from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"status {done.returncode}"]
        raise SpecError(f"git {arguments[0]}: {lines[-1]}")
    return done.stdout.decode("utf-8", "surrogateescape")


def find_repository(folder: Path, name: str) -> Repository:
    """Return the repository that a folder is in. Raises SpecError, which names the arm."""
    try:
        return Repository(Path(run_git(folder, "rev-parse", "--show-toplevel").rstrip("\n")))
    except SpecError as error:
        raise SpecError(f"{name}: {folder} is not in a git repository ({error})") from error


def resolve_all(root: Path, names: Sequence[str]) -> dict[str, str]:
    """Return the SHAs of the arms that are commits; without those that cannot be resolved, which is reported later."""
    shas: dict[str, str] = {}
    for name in filter(is_commit, names):
        with contextlib.suppress(SpecError):
            shas[name] = find_repository(root, name).resolve(name)
    return shas
