"""The confinement of a program that may start others: one directory to write to, and TCP to one port of this machine.

Landlock restricts TCP alone. The filter of system calls therefore refuses what else leaves the machine: other kinds of sockets,
other protocols of streams (such as MPTCP, which Landlock does not see), and the connection within a send (TCP fast open).
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pytest_crucible.sandbox.confinement import (
    ALLOW,
    ARCHITECTURE,
    EVERYTHING,
    EXECUTE,
    FIRST_OF_2019,
    IOCTL,
    KILL,
    LIST,
    NUMBER,
    OTHERS_TERMINALS,
    PR_SET_NO_NEW_PRIVS,
    READ,
    TRUNCATE,
    WRITE,
    Instruction,
    Machine,
    argument,
    at_least,
    containment,
    drop_capabilities,
    equal,
    install_filter,
    landlock_version,
    load_word,
    machine,
    prctl,
    readable,
    refuse,
    refused_calls,
    restrict,
    return_action,
)

# With version 4, of Linux 6.7, Landlock restricts TCP.
LEAST_NETWORK = 4
# A program with children needs them, and its files are its own.
_ALLOWED = frozenset(
    "socket fork vfork execve execveat setsid setpgid prctl tkill rt_sigqueueinfo rt_tgsigqueueinfo memfd_create chmod fchmod "
    "fchmodat utime utimes futimesat utimensat mknod mknodat truncate setpriority sched_setparam sched_setscheduler "
    "sched_setattr sched_setaffinity inotify_init inotify_init1 ioprio_set".split()
)
# socket, sendto, sendmsg and sendmmsg, with the number of the argument that has the flags of a send.
_SOCKETS = {"x86_64": (41, ((44, 3), (46, 2), (307, 3))), "aarch64": (198, ((206, 3), (211, 2), (269, 3)))}
_INET, _INET6, _STREAM, _TCP = 2, 10, 1, 6
_OF_KIND = 0xF  # the rest of a socket's type are flags
_FAST_OPEN = 0x20000000
# clone: all CLONE_NEW*, namespaces of its own.
_NAMESPACES = 0x7E020000
_X32 = 0x40000000
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/proc", "/sys/devices/system/cpu", "/dev/fd")
# Of /etc only what programs need to run: it has secrets, too.
_SETTINGS = (
    "alternatives ca-certificates gitconfig group hosts ld.so.cache localtime mime.types nsswitch.conf passwd pki ssl"
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom")
# Everything but making devices.
_OWN = EVERYTHING & ~(1 << 6) & ~(1 << 11)


def missing_parts() -> str:
    """Return a sentence on why this machine cannot confine a program to a port; empty if it can."""
    if containment().missing:
        return containment().missing
    if landlock_version() < LEAST_NETWORK:
        return (
            f"Landlock version {landlock_version()} of this kernel ({platform.release()}) does not restrict the network: "
            "needs Linux 6.7 or newer"
        )
    return ""


def confine(writable: Iterable[str], files: Iterable[str], port: int | None) -> None:
    """Confine this process and those that it will start, for good. Raises OSError.

    It may write to `writable`, read and run the system's programs and `files`, and connect to `port`, None for no port.
    """
    numbers = machine()
    if numbers is None or missing_parts():
        raise OSError(missing_parts())
    import resource  # Windows, where this is never reached, has none

    prctl(PR_SET_NO_NEW_PRIVS, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rights = [(path, READ | LIST | EXECUTE) for path in (*_SYSTEM, *map("/etc/{}".format, _SETTINGS.split()), *files)]
    rights += [(path, READ | WRITE | TRUNCATE | IOCTL) for path in _DEVICES]
    rights += [(path, _OWN | (IOCTL if landlock_version() >= 5 else 0)) for path in writable]
    restrict(numbers, rights, port)
    drop_capabilities(numbers)
    install_filter(numbers, port_filter(numbers))


def port_filter(numbers: Machine) -> list[Instruction]:
    """Return the filter of calls for a program that may start others and open TCP sockets."""
    denied = return_action(refuse(errno.EPERM))
    name = platform.machine()
    socket, sends = _SOCKETS[name]
    rules = [load_word(ARCHITECTURE), equal(numbers.audit, skip=1), (0x05, 0, 0, 1), return_action(KILL)]
    rules += [load_word(NUMBER), at_least(_X32, skip=1), return_action(KILL)]
    rules += [at_least(FIRST_OF_2019, skip=1), return_action(refuse(errno.ENOSYS))]
    for number in refused_calls(1 if name == "x86_64" else 2, without=_ALLOWED):
        rules += [equal(number, skip=1), denied]
    rules += _when(numbers.clone, [argument(0), _has_bits(_NAMESPACES), denied])
    rules += _when(
        numbers.ioctl,
        [argument(1), *(each for command in OTHERS_TERMINALS for each in (equal(command, skip=1), denied))],
    )
    for number, flags in sends:
        rules += _when(number, [argument(flags), _has_bits(_FAST_OPEN), denied])
    # Each test jumps over the refusal below it.
    family = [argument(0), (0x15, 2, 0, _INET), (0x15, 1, 0, _INET6), denied]
    kind = [argument(1), (0x54, 0, 0, _OF_KIND), (0x15, 1, 0, _STREAM), denied]
    protocol = [argument(2), (0x15, 2, 0, 0), (0x15, 1, 0, _TCP), denied]
    rules += _when(socket, [*family, *kind, *protocol])
    return [*rules, return_action(ALLOW)]


def _when(number: int, checks: list[Instruction]) -> list[Instruction]:
    """Return the checks of one call, which is allowed if none of them refuses it."""
    return [equal(number, skip=len(checks) + 1), *checks, return_action(ALLOW)]


def _has_bits(bits: int) -> Instruction:
    """Return a test that continues if one of the bits is set, and otherwise skips an instruction."""
    return 0x45, 0, 1, bits


def own_files(command: Iterable[str], program: str) -> list[str]:
    """Return what a command needs to read: the files that it names, this Python, and the environment of its program."""
    files = [*readable(), sys.prefix, sys.base_prefix, *filter(os.path.isfile, command)]
    for path in (Path(program), Path(program).resolve()):
        # `PREFIX/bin/python`. A home directory has more than an environment.
        prefix = path.parent.parent
        if path.parent.name == "bin" and prefix not in (Path("/"), _home()):
            files.append(str(prefix))
    return [*files, program]


def _home() -> Path | None:
    with suppress(RuntimeError):
        return Path.home()
    return None
