"""Files and folders that other users of the machine can neither read nor change."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from pytest_crucible.records.errors import SpecError

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
        if _IS_POSIX and status.st_mode & _OTHERS:
            _narrow(path, status)


def _narrow(path: Path, status: os.stat_result) -> None:
    try:
        path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
    except OSError as error:
        # A file system without modes or without writes refuses its owner, too: the mount decides who reads it.
        if status.st_uid != os.geteuid():
            raise NotPrivateError(
                f"{str(path)!r} belongs to another user (uid {status.st_uid}), who can read and change it: "
                "name a run store of your own with --crucible-store, or change its owner"
            ) from error
