"""Linux system calls that Python has no function for."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from functools import cache

from pytest_crucible.sandbox.syscalls import MACHINES, Machine

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 1, 38, 39, 24
_CAPABILITY_VERSION_3 = 0x20080522


@cache
def machine() -> Machine | None:
    """Return the system call numbers of this machine; None for an unknown machine, and off Linux."""
    return MACHINES.get(platform.machine()) if sys.platform == "linux" else None


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: int | bytes | None) -> int:
    """Make a system call; raises OSError on failure."""
    c_arguments = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = _libc().syscall(ctypes.c_long(number), *c_arguments)
    return _raise_on_error(result)


def prctl(option: int, *arguments: int) -> int:
    """Make a `prctl` call; raises OSError on failure."""
    c_arguments = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    result: int = _libc().prctl(option, *c_arguments)
    return _raise_on_error(result)


def address(data: bytes) -> int:
    """Return the address of the bytes; they must outlive the call that reads them."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def drop_capabilities(numbers: Machine) -> None:
    """Drop all capabilities: from here on root is an ordinary user."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    call(numbers.capset, header, bytes(24))


def _raise_on_error(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
