"""Copies of a directory, which share their blocks with it where the file system can (Btrfs, XFS, bcachefs)."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from contextlib import suppress
from pathlib import Path

# ioctl_ficlone(2)
_FICLONE = 0x40049409


def copy_tree(source: Path, target: Path) -> None:
    """Copy the files of a directory, or one file, into a directory. Raises OSError.

    What is there already is replaced, file by file. Links stay links. One to a place within `source` leads to the same place
    within `target`, also if it was absolute.
    """
    if source.is_file():
        _make_way(source, target / source.name)
        clone_file(str(source), str(target / source.name))
        return
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            path = Path(folder, name)
            _make_way(path, target / path.relative_to(source))
    shutil.copytree(source, target, symlinks=True, copy_function=clone_file, dirs_exist_ok=True)
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and (led := Path(os.readlink(path))).is_absolute() and led.is_relative_to(source):
                path.unlink()
                path.symlink_to(os.path.relpath(target / led.relative_to(source), folder))


def hash_tree(source: Path) -> str:
    """Return a hash of a directory's files, or of one file: names, contents, links, and which of them are programs.

    Compiled modules are left out: an interpreter writes them when it reads the others. Raises OSError.
    """
    if source.is_file():
        return hashlib.sha256(repr([source.name, _describe(source)]).encode()).hexdigest()
    paths = sorted(path for path in source.rglob("*") if "__pycache__" not in path.parts)
    facts = [(os.fspath(path.relative_to(source)), _describe(path)) for path in paths]
    return hashlib.sha256(repr(facts).encode(errors="surrogatepass")).hexdigest()


def _describe(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if not path.is_file():
        return "directory"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{digest} {'program' if os.access(path, os.X_OK) else 'file'}"


def _make_way(source: Path, target: Path) -> None:
    """Remove what an agent has put in the place of a file: through a link, its copy would change another one."""
    if target.is_symlink() or (target.is_file() and (source.is_dir() or source.is_symlink())):
        target.unlink()
    elif target.is_dir() and (source.is_symlink() or not source.is_dir()):
        remove_tree(target)


def clone_file(source: str, target: str) -> str:
    """Copy a file with its mode and times; return the target. Raises OSError for what is not a file, such as a pipe."""
    if not stat.S_ISREG(os.stat(source).st_mode):
        raise OSError(f"{source} is neither a file, a directory nor a link, and cannot be copied")
    if not _shares_blocks(source, target):
        shutil.copyfile(source, target)
    shutil.copystat(source, target)
    return target


def _shares_blocks(source: str, target: str) -> bool:
    """Make a file of the same blocks; return False where the file system cannot."""
    if sys.platform != "linux":
        return False
    import fcntl

    try:
        with open(source, "rb") as original, open(target, "wb") as copy:
            fcntl.ioctl(copy, _FICLONE, original.fileno())
    except OSError:
        return False
    return True


def remove_tree(folder: Path) -> None:
    """Remove a directory, also one with directories that cannot be written. What cannot be removed is left."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(path, name)
            if not inner.is_symlink() and not os.access(inner, os.R_OK | os.W_OK | os.X_OK):
                with suppress(OSError):
                    inner.chmod(stat.S_IRWXU)
    shutil.rmtree(folder, ignore_errors=True)
