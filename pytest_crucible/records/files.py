"""Files: hashes, locks between processes, privacy from other users, and the state of their git repository."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from pytest_crucible.records.errors import SpecError

PAUSE_S = 0.1  # a training takes seconds at least, so that polling ten times a second costs nothing beside it

if sys.platform == "win32":  # pragma: no cover - where coverage is measured it is not
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_locked(path: Path) -> bool:
    """Return whether another process holds the lock of a file now."""
    if not path.exists():
        return False
    # Closing the file releases a lock that was free.
    with path.open("ab") as file:
        return not _try_lock(file)


@contextlib.contextmanager
def file_lock(path: Path, wait: Callable[[], None]) -> Iterator[IO[bytes]]:
    """Hold the lock of a file within the block. `wait` is called once where another process holds it.

    A process that inherits the open file holds the lock too.

    The file is not removed afterwards: two processes could then hold locks on two files of one name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if not _try_lock(file):
            wait()
            while not _try_lock(file):
                time.sleep(PAUSE_S)
        yield file


STORE_FOLDER = ".crucible"
"""The folder of run stores, of trained adapters and of the local Tinker server."""
_OTHERS = 0o077
"""The permissions of the group and of all other users."""
_IS_POSIX = os.name == "posix"


class NotPrivateError(SpecError, OSError):
    """A file or folder that another user of the machine could read or change."""


def runtime_folder() -> Path:
    """Return this user's folder for files that several processes share, below the directory for temporary files.

    Raises NotPrivateError, which is an OSError, where another user has made it first or can reach into it.
    """
    user = os.geteuid() if _IS_POSIX else 0
    return own_folder(Path(tempfile.gettempdir()) / f"pytest-crucible-{user}")


def own_folder(path: Path) -> Path:
    """Create a folder with mode 0700 and return it. One that is there already must be a folder, this user's, and as private.

    Raises NotPrivateError and OSError.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if _IS_POSIX:
        # A link could point to a folder that another user replaces: its own status counts.
        status = path.lstat()
        remedy = "remove it, or set TMPDIR to a directory of your own"
        if not stat.S_ISDIR(status.st_mode):
            raise NotPrivateError(f"{str(path)!r} must be a folder, and is a link or a file: {remedy}")
        if status.st_uid != os.geteuid():
            raise NotPrivateError(f"{str(path)!r} belongs to another user (uid {status.st_uid}): {remedy}")
        if status.st_mode & _OTHERS:
            mode = stat.S_IMODE(status.st_mode)
            raise NotPrivateError(
                f"{str(path)!r} can be reached by other users (mode {mode:04o}, expected 0700): {remedy}"
            )
    return path


def is_own_folder(path: Path) -> bool:
    """Return whether the folder exists and only this user can reach into it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_private = not _IS_POSIX or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS)
    return stat.S_ISDIR(status.st_mode) and is_private


def create_store_folder(folder: Path) -> None:
    """Create the folder of run stores with mode 0700, or take the permissions of other users away, from its files too.

    Raises NotPrivateError where it belongs to another user, and OSError.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    close_to_others(folder)
    for entry in folder.iterdir():
        # Of another user, perhaps after `sudo`: the folder is closed to the others already.
        with contextlib.suppress(NotPrivateError):
            close_to_others(entry)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        create_closed(ignore)
        # Prompts and replies do not belong into commits.
        ignore.write_text("*\n", encoding="utf-8")


def create_closed(path: Path) -> None:
    """Create an empty file with mode 0600, or take the permissions of other users away from the one that is there.

    Raises NotPrivateError where it belongs to another user, and OSError.
    """
    try:
        # The mode is there from the start: a file that is narrowed later can have been opened in between.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        close_to_others(path)


def close_to_others(path: Path) -> None:
    """Take the permissions of the group and of all other users away; the owner's stay. Raises NotPrivateError."""
    # Files of SQLite come and go while others look.
    with contextlib.suppress(FileNotFoundError):
        status = path.stat()
        if not _IS_POSIX or not status.st_mode & _OTHERS:
            return
        try:
            path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
        except OSError as error:
            # A file system without modes or without writes refuses its owner, too: the mount decides who reads it.
            if status.st_uid != os.geteuid():
                raise NotPrivateError(
                    f"{str(path)!r} belongs to another user (uid {status.st_uid}), who can read and change it: "
                    "name a run store of your own with --crucible-store, or change its owner"
                ) from error


def git_commit(root: Path) -> dict[str, Any] | None:
    """Return commit, branch and whether files are uncommitted; None outside a repository or without git."""
    # Starting git takes longer than looking for its directory.
    folders = (folder := root.resolve(), *folder.parents)
    is_repository = "GIT_DIR" in os.environ or any((folder / ".git").exists() for folder in folders)
    names = _git(root, "rev-parse", "HEAD", "--abbrev-ref", "HEAD") if is_repository else None
    if names is None:
        return None
    commit, branch = names.splitlines()
    return {
        "commit": commit,
        "branch": branch,
        "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no")),
    }


def _git(root: Path, *arguments: str) -> str | None:
    # Imported here: a command that only reads a store starts no process.
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
