"""A filter of system calls: no sockets, no further processes, no signals to others. See seccomp(2)."""

from __future__ import annotations

import errno
import struct

from pytest_crucible.sandbox.kernel import address, call
from pytest_crucible.sandbox.syscalls import FIRST_OF_2019, Machine

ALLOW, KILL = 0x7FFF0000, 0x80000000
CLONE_THREAD = 0x10000
NUMBER, ARCHITECTURE = 0, 4
OTHERS_SIGNALS = (8, 10, 15)
"""fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX make the kernel send signals to others."""
OTHERS_TERMINALS = (0x5412, 0x541C, 0x8901, 0x8902)
"""ioctl: TIOCSTI and TIOCLINUX type into a terminal, FIOSETOWN and SIOCSPGRP are as above."""
_X32 = 0x40000000

Instruction = tuple[int, int, int, int]


def refuse(error: int) -> int:
    """Answer with an error, as if the kernel could not do it."""
    return 0x00050000 | error


def load(offset: int) -> Instruction:
    return 0x20, 0, 0, offset


def argument(number: int) -> Instruction:
    """The lower half of an argument: all that are looked at are C ints, or flags in the lower half."""
    return load(16 + 8 * number)


def answer(with_: int) -> Instruction:
    return 0x06, 0, 0, with_


def equal(value: int, *, skip: int) -> Instruction:
    """Go on when equal; else skip so many."""
    return 0x15, 0, skip, value


def least(value: int, *, skip: int) -> Instruction:
    return 0x35, 0, skip, value


def has(bits: int, *, skip: int) -> Instruction:
    return 0x45, 0, skip, bits


def program(numbers: Machine, own: int) -> list[Instruction]:
    """The filter for the process `own`."""
    no = answer(refuse(errno.EPERM))
    filtered = [load(ARCHITECTURE), equal(numbers.audit, skip=1), (0x05, 0, 0, 1), answer(KILL), load(NUMBER)]
    filtered += [least(_X32, skip=1), answer(KILL)]
    filtered += [least(FIRST_OF_2019, skip=1), answer(refuse(errno.ENOSYS))]
    for number in numbers.refused:
        filtered += [equal(number, skip=1), no]
    filtered += [equal(numbers.clone, skip=4), argument(0), has(CLONE_THREAD, skip=1), answer(ALLOW), no]
    for number in (numbers.kill, numbers.tgkill):
        filtered += [equal(number, skip=4), argument(0), equal(own, skip=1), answer(ALLOW), no]
    to_itself = [equal(0, skip=1), answer(ALLOW), equal(own, skip=1), answer(ALLOW), no]
    filtered += [equal(numbers.prlimit, skip=1 + len(to_itself)), argument(0), *to_itself]
    for number, commands in ((numbers.fcntl, OTHERS_SIGNALS), (numbers.ioctl, OTHERS_TERMINALS)):
        checks = [one for command in commands for one in (equal(command, skip=1), no)]
        filtered += [equal(number, skip=2 + len(checks)), argument(1), *checks, answer(ALLOW)]
    return [*filtered, answer(ALLOW)]


def install(numbers: Machine, own: int) -> None:
    """Filter this process and its threads from here on. Raises OSError."""
    instructions = program(numbers, own)
    code = b"".join(struct.pack("=HBBI", *one) for one in instructions)
    call(numbers.seccomp, 1, 0, struct.pack("=HxxxxxxQ", len(instructions), address(code)))
