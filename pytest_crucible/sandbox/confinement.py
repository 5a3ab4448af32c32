"""Confinement by the kernel: Landlock for files, see landlock(7), and a filter of system calls, see seccomp(2)."""

from __future__ import annotations

import errno
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from pytest_crucible.sandbox.kernel import FIRST_OF_2019, Machine, address, call, machine

EXECUTE, WRITE, READ, LIST, TRUNCATE, IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
# All rights on files that versions 1 to 4 of Landlock know.
EVERYTHING = (1 << 15) - 1
# Rights on ordinary files only: no directories, devices, sockets, pipes or links.
REMOVE, MAKE = 1 << 5, 1 << 8
OF_FILES = EXECUTE | WRITE | READ | TRUNCATE | IOCTL
# Before version 3, Landlock did not restrict truncate(2): a readable file could be emptied.
LEAST_LANDLOCK = 3


@cache
def landlock_version() -> int:
    """Return the kernel's Landlock version; 0 without Landlock."""
    numbers = machine()
    if numbers is None:
        return 0
    try:
        return call(numbers.landlock, None, 0, 1)
    except OSError:
        return 0


def restrict_files(numbers: Machine, *, readable: Iterable[str], writable: Iterable[str]) -> None:
    """Restrict this process permanently to these files and directories, and to the files below them. Raises OSError."""
    handled = EVERYTHING | (IOCTL if landlock_version() >= 5 else 0)
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
    parts = [handled] + ([3] if landlock_version() >= 4 else []) + ([3] if landlock_version() >= 6 else [])
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


ALLOW, KILL = 0x7FFF0000, 0x80000000
CLONE_THREAD = 0x10000
NUMBER, ARCHITECTURE = 0, 4
# fcntl: F_SETOWN, F_SETSIG and F_SETOWN_EX make the kernel send signals to other processes.
OTHERS_SIGNALS = (8, 10, 15)
# ioctl: TIOCSTI and TIOCLINUX type into a terminal, FIOSETOWN and SIOCSPGRP send signals as above.
OTHERS_TERMINALS = (0x5412, 0x541C, 0x8901, 0x8902)
# Calls of the x32 interface have other numbers, which the list does not cover.
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]


def refuse(error: int) -> int:
    """Return the action that makes a call fail with this error, as if the kernel could not do it."""
    return 0x00050000 | error


def load_word(offset: int) -> Instruction:
    return 0x20, 0, 0, offset


def argument(number: int) -> Instruction:
    """Return the load of an argument's lower half.

    All arguments that are checked are C ints, or have their flags in the lower half.
    """
    return load_word(16 + 8 * number)


def return_action(action: int) -> Instruction:
    return 0x06, 0, 0, action


def equal(value: int, *, skip: int) -> Instruction:
    """Return a test that continues when equal, and otherwise skips this many instructions."""
    return 0x15, 0, skip, value


def at_least(value: int, *, skip: int) -> Instruction:
    return 0x35, 0, skip, value


def has_bits(bits: int, *, skip: int) -> Instruction:
    return 0x45, 0, skip, bits


def filter_program(numbers: Machine, own: int) -> list[Instruction]:
    """Return the filter for the process `own`."""
    denied = return_action(refuse(errno.EPERM))
    instructions = [
        load_word(ARCHITECTURE),
        equal(numbers.audit, skip=1),
        (0x05, 0, 0, 1),
        return_action(KILL),
        load_word(NUMBER),
    ]
    instructions += [at_least(_X32, skip=1), return_action(KILL)]
    # ENOSYS, so that programs fall back to the older call (clone3 to clone).
    instructions += [at_least(FIRST_OF_2019, skip=1), return_action(refuse(errno.ENOSYS))]
    for number in numbers.refused:
        instructions += [equal(number, skip=1), denied]
    # Threads are allowed, processes are not.
    instructions += [
        equal(numbers.clone, skip=4),
        argument(0),
        has_bits(CLONE_THREAD, skip=1),
        return_action(ALLOW),
        denied,
    ]
    for number in (numbers.kill, numbers.tgkill):
        instructions += [equal(number, skip=4), argument(0), equal(own, skip=1), return_action(ALLOW), denied]
    to_itself = [equal(0, skip=1), return_action(ALLOW), equal(own, skip=1), return_action(ALLOW), denied]
    instructions += [equal(numbers.prlimit, skip=1 + len(to_itself)), argument(0), *to_itself]
    for number, commands in ((numbers.fcntl, OTHERS_SIGNALS), (numbers.ioctl, OTHERS_TERMINALS)):
        checks = [check for command in commands for check in (equal(command, skip=1), denied)]
        instructions += [equal(number, skip=2 + len(checks)), argument(1), *checks, return_action(ALLOW)]
    return [*instructions, return_action(ALLOW)]


def install_filter(numbers: Machine, own: int) -> None:
    """Filter this process and its threads from here on; raises OSError."""
    instructions = filter_program(numbers, own)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    call(numbers.seccomp, 1, 0, struct.pack("=HxxxxxxQ", len(instructions), address(code)))


# Landlock's version 3 (see `LEAST_LANDLOCK`) came with Linux 6.2.
NEEDED = "Linux 6.2 or newer with Landlock and seccomp, on x86_64 or aarch64"
_SYSTEM = ("/usr/lib", "/lib", "/lib64", "/usr/share/zoneinfo", "/dev/urandom", "/dev/zero")


@dataclass(frozen=True, slots=True)
class Containment:
    """The confinement available on this machine. If something is missing, no program runs."""

    files: bool
    """No file outside its own directory can be written, and none but Python's own libraries read."""
    calls: bool
    """No network, no further processes, no signals to others."""

    @property
    def complete(self) -> bool:
        return self.files and self.calls

    @property
    def missing(self) -> str:
        """A sentence that names the missing parts; empty if nothing is missing."""
        lacking = [word for word, holds in (("Landlock", self.files), ("seccomp filters", self.calls)) if not holds]
        return f"{' and '.join(lacking)} not available on this machine: needs {NEEDED}" if lacking else ""


def containment() -> Containment:
    """Return the confinement that the kernel offers.

    >>> containment().complete in (True, False)
    True
    """
    return Containment(files=landlock_version() >= LEAST_LANDLOCK, calls=_filters())


def _filters() -> bool:
    numbers = machine()
    if numbers is None:
        return False
    try:
        call(numbers.seccomp, 1, 0, None)
    except OSError as error:
        # A kernel with filters tries to read the one at address 0, and fails only there.
        return error.errno == errno.EFAULT
    return False


def readable() -> tuple[str, ...]:
    """Return the paths that a program may read: the libraries of this Python and of the system."""
    paths = sysconfig.get_paths()
    own = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    base = os.path.join(sys.base_prefix, sys.platlibdir)
    return tuple(dict.fromkeys([*own, base, os.path.join(sys.base_prefix, "lib"), *_SYSTEM]))
