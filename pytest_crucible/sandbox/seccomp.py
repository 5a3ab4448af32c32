"""A system call filter: no sockets, no further processes, no signals to others. See seccomp(2)."""

from __future__ import annotations

import errno
import struct

from pytest_crucible.sandbox.kernel import address, call
from pytest_crucible.sandbox.syscalls import FIRST_OF_2019, Machine

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


def load(offset: int) -> Instruction:
    return 0x20, 0, 0, offset


def argument(number: int) -> Instruction:
    """Return the load of an argument's lower half.

    All arguments that are checked are C ints, or have their flags in the lower half.
    """
    return load(16 + 8 * number)


def return_action(action: int) -> Instruction:
    return 0x06, 0, 0, action


def equal(value: int, *, skip: int) -> Instruction:
    """Return a test that continues when equal, and otherwise skips this many instructions."""
    return 0x15, 0, skip, value


def at_least(value: int, *, skip: int) -> Instruction:
    return 0x35, 0, skip, value


def has_bits(bits: int, *, skip: int) -> Instruction:
    return 0x45, 0, skip, bits


def program(numbers: Machine, own: int) -> list[Instruction]:
    """Return the filter for the process `own`."""
    denied = return_action(refuse(errno.EPERM))
    instructions = [
        load(ARCHITECTURE),
        equal(numbers.audit, skip=1),
        (0x05, 0, 0, 1),
        return_action(KILL),
        load(NUMBER),
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


def install(numbers: Machine, own: int) -> None:
    """Filter this process and its threads from here on; raises OSError."""
    instructions = program(numbers, own)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    call(numbers.seccomp, 1, 0, struct.pack("=HxxxxxxQ", len(instructions), address(code)))
