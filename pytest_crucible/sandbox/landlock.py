"""Landlock: restricts a process to the files that it was given. See landlock(7)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from functools import cache

from pytest_crucible.sandbox.kernel import call, machine
from pytest_crucible.sandbox.syscalls import Machine

EXECUTE, WRITE, READ, LIST, TRUNCATE, IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
# All rights on files that versions 1 to 4 of Landlock know.
EVERYTHING = (1 << 15) - 1
# Rights on ordinary files only: no directories, devices, sockets, pipes or links.
REMOVE, MAKE = 1 << 5, 1 << 8
OF_FILES = EXECUTE | WRITE | READ | TRUNCATE | IOCTL
# Before version 3, Landlock did not restrict truncate(2): a readable file could be emptied.
LEAST = 3


@cache
def version() -> int:
    """Return the kernel's Landlock version; 0 without Landlock."""
    numbers = machine()
    if numbers is None:
        return 0
    try:
        return call(numbers.landlock, None, 0, 1)
    except OSError:
        return 0


def restrict(numbers: Machine, *, readable: Iterable[str], writable: Iterable[str]) -> None:
    """Restrict this process permanently to these files and directories, and to the files below them.

    Raises OSError.
    """
    handled = EVERYTHING | (IOCTL if version() >= 5 else 0)
    rules = _ruleset(numbers, handled)
    try:
        for path in readable:
            _allow(numbers, rules, path, READ | LIST)
        for path in writable:
            _allow(numbers, rules, path, WRITE | READ | LIST | TRUNCATE | REMOVE | MAKE)
        call(numbers.landlock + 2, rules, 0)
    finally:
        os.close(rules)


def _ruleset(numbers: Machine, handled: int) -> int:
    """Return a new ruleset: files in all versions, TCP from 4 on, signals and abstract sockets from 6 on."""
    parts = [handled] + ([3] if version() >= 4 else []) + ([3] if version() >= 6 else [])
    return call(numbers.landlock, struct.pack(f"={len(parts)}Q", *parts), 8 * len(parts), 0)


def _allow(numbers: Machine, rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = rights if os.path.isdir(path) else rights & OF_FILES
        call(numbers.landlock + 1, rules, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
