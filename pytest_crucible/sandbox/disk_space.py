"""The disk space that confined processes use: files in their directory, and deleted files that they keep open or mapped."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

# Small files take little disk space each, but many of them would slow the clean-up down.
MOST_FILES = 1000
# Bytes in the unit of st_blocks, on every file system (stat(2)).
_BLOCK = 512
File = tuple[int, int]
"""Device and inode: one file may be open, mapped and listed at once."""


def check_disk(folder: str, processes: Iterable[int], limits: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the reason to stop processes that wrote too much, or None.

    There are no directories in their directory: they cannot make any.
    """
    sizes: dict[File, int] = {}
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries, start=1):
            with suppress(FileNotFoundError):
                sizes |= _size(entry.stat(follow_symlinks=False))
            if count > MOST_FILES:
                return "killed", f"it made more than {MOST_FILES} files"
    for process in processes:
        # A deleted file takes space until the last process has closed it.
        for deleted in _open_files(process):
            sizes |= deleted
        for file in _mapped_files(process, os.path.realpath(folder)):
            # The size of a closed file is unknown: it may be that of the largest file.
            sizes.setdefault(file, limits["file_bytes"])
    disk_bytes = limits["disk_bytes"]
    return ("killed", f"it wrote more than {disk_bytes} bytes") if sum(sizes.values()) > disk_bytes else None


def _size(status: os.stat_result) -> dict[File, int]:
    return {(status.st_dev, status.st_ino): status.st_blocks * _BLOCK}


def _open_files(process: int) -> Iterator[dict[File, int]]:
    with suppress(OSError), os.scandir(f"/proc/{process}/fd") as descriptors:
        for descriptor in descriptors:
            with suppress(OSError):
                status = os.stat(descriptor.path)
                if status.st_nlink == 0:
                    yield _size(status)


def _mapped_files(process: int, folder: str) -> Iterator[File]:
    """Yield the deleted files of the folder that a process has mapped."""
    with suppress(OSError), open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.endswith("(deleted)\n") and f" {folder}/" in line:
                device, inode = line.split()[3:5]
                major, minor = (int(part, 16) for part in device.split(":"))
                yield os.makedev(major, minor), int(inode)
