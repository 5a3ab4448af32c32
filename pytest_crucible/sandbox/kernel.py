"""Calls of the Linux kernel that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from functools import cache

from pytest_crucible.sandbox.syscalls import MACHINES, Machine

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 1, 38, 24
_CAPABILITY_VERSION_3 = 0x20080522


@cache
def machine() -> Machine | None:
    """How this machine numbers its calls; None where that is not known, and off Linux."""
    return MACHINES.get(platform.machine()) if sys.platform == "linux" else None


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call. Raises OSError."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    answer: int = _libc().syscall(ctypes.c_long(number), *given)
    return _checked(answer)


def prctl(option: int, *arguments: int) -> int:
    """Make a `prctl`. Raises OSError."""
    given = [ctypes.c_ulong(one) for one in (*arguments, 0, 0, 0, 0)[:4]]
    answer: int = _libc().prctl(option, *given)
    return _checked(answer)


def address(of: bytes) -> int:
    """Where the bytes lie; they must outlive the call that reads them."""
    return ctypes.cast(ctypes.c_char_p(of), ctypes.c_void_p).value or 0


def drop_capabilities(numbers: Machine) -> None:
    """From here on root is a user as any other."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    call(numbers.capset, header, bytes(24))


def _checked(answer: int) -> int:
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return answer
