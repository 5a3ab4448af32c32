"""Confinement by the kernel: Landlock for files, see landlock(7), and a filter of system calls, see seccomp(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from pytest_crucible.quick_dataclass import dataclass

# From this number on all machines agree, and programs can do without the calls: io_uring, clone3, pidfd_*, mounts.
FIRST_OF_2019 = 424

# Each line: name, number on x86_64, number on aarch64 (which never had the ones marked -).
_REFUSED = """
socket 41 198          fork 57 -              vfork 58 -             execve 59 221          execveat 322 281
ptrace 101 117         tkill 200 130          rt_sigqueueinfo 129 138                       rt_tgsigqueueinfo 297 240
shmget 29 194          semget 64 190          msgget 68 186          mq_open 240 180        memfd_create 319 279
chmod 90 -             fchmod 91 52           fchmodat 268 53        chown 92 -             fchown 93 55
lchown 94 -            fchownat 260 54        utime 132 -            utimes 235 -           futimesat 261 -
utimensat 280 88       mknod 133 -            mknodat 259 33         truncate 76 45         personality 135 92
setpriority 141 140    sched_setparam 142 118 sched_setscheduler 144 119                    sched_setattr 314 274
sched_setaffinity 203 122                     pivot_root 155 41      chroot 161 51          mount 165 40
umount2 166 39         swapon 167 224         swapoff 168 225        reboot 169 142         init_module 175 105
finit_module 313 273   delete_module 176 106  setxattr 188 5         lsetxattr 189 6        fsetxattr 190 7
removexattr 197 14     lremovexattr 198 15    fremovexattr 199 16    add_key 248 217        request_key 249 218
keyctl 250 219         ioprio_set 251 30      inotify_init 253 -     inotify_init1 294 26   fanotify_init 300 262
migrate_pages 256 238  move_pages 279 239     unshare 272 97         setns 308 268          perf_event_open 298 241
name_to_handle_at 303 264                     open_by_handle_at 304 265                     process_vm_readv 310 270
process_vm_writev 311 271                     kcmp 312 272           seccomp 317 277        kexec_load 246 104
kexec_file_load 320 294                       bpf 321 280            userfaultfd 323 282    setsid 112 157
setpgid 109 154        prctl 157 167          acct 163 89            quotactl 179 60        syslog 103 116
settimeofday 164 170   clock_settime 227 112  adjtimex 159 171       clock_adjtime 305 266  sethostname 170 161
setdomainname 171 162  iopl 172 -             ioperm 173 -           modify_ldt 154 -       vhangup 153 58
setuid 105 146         setgid 106 144         setreuid 113 145       setregid 114 143       setresuid 117 147
setresgid 119 149      setfsuid 122 151       setfsgid 123 152       setgroups 116 159      capset 126 91
io_setup 206 0
"""


@dataclass(frozen=True, slots=True)
class Machine:
    audit: int
    """The kernel's code for the machine (AUDIT_ARCH_*)."""
    landlock: int
    clone: int
    kill: int
    tgkill: int
    prlimit: int
    fcntl: int
    ioctl: int
    seccomp: int
    capset: int
    refused: tuple[int, ...]


def refused_calls(column: int, *, without: frozenset[str] = frozenset()) -> tuple[int, ...]:
    """Return the numbers of refused calls, on x86_64 (column 1) or aarch64 (2), without those of some names."""
    words = _REFUSED.split()
    rows = (words[k : k + 3] for k in range(0, len(words), 3))
    return tuple(int(row[column]) for row in rows if row[column] != "-" and row[0] not in without)


MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(0xC000003E, 444, 56, 62, 234, 302, 72, 16, 317, 126, refused_calls(1)),
    "aarch64": Machine(0xC00000B7, 444, 220, 129, 131, 261, 25, 29, 277, 91, refused_calls(2)),
}


PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 1, 38, 39
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
    return _check_result(_libc().syscall(ctypes.c_long(number), *c_arguments))


def prctl(option: int, *arguments: int) -> int:
    """Make a `prctl` call; raises OSError on failure."""
    c_arguments = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _check_result(_libc().prctl(option, *c_arguments))


def address(data: bytes) -> int:
    """Return the address of the bytes; they must outlive the call that reads them."""
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def drop_capabilities(numbers: Machine) -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    call(numbers.capset, header, bytes(24))


def _check_result(result: int) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


EXECUTE, WRITE, READ, LIST, TRUNCATE, IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
# All rights on files that versions 1 to 4 of Landlock know.
EVERYTHING = (1 << 15) - 1
# Rights on ordinary files only: no directories, devices, sockets, pipes or links.
REMOVE, MAKE = 1 << 5, 1 << 8
OF_FILES = EXECUTE | WRITE | READ | TRUNCATE | IOCTL
# The kind of a rule on TCP ports, and the right to connect.
_NET_PORT, _CONNECT = 2, 1 << 1
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
    rights = [(path, READ | LIST) for path in readable]
    restrict(numbers, [*rights, *((path, WRITE | READ | LIST | TRUNCATE | REMOVE | MAKE) for path in writable)])


def restrict(numbers: Machine, rights: Iterable[tuple[str, int]], port: int | None = None) -> None:
    """Restrict this process permanently to rights on paths, and to TCP connections to a port, None for none.

    Raises OSError.
    """
    rules = _ruleset(numbers, EVERYTHING | (IOCTL if landlock_version() >= 5 else 0))
    try:
        for path, right in rights:
            _allow(numbers, rules, path, right)
        if port is not None:
            call(numbers.landlock + 1, rules, _NET_PORT, struct.pack("=QQ", _CONNECT, port), 0)
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
    """Return the load of an argument's lower half, where C ints and flags are."""
    return load_word(16 + 8 * number)


def return_action(action: int) -> Instruction:
    return 0x06, 0, 0, action


def equal(value: int, *, skip: int) -> Instruction:
    """Return a test that continues when equal, and otherwise skips this many instructions."""
    return 0x15, 0, skip, value


def at_least(value: int, *, skip: int) -> Instruction:
    return 0x35, 0, skip, value


def filter_program(numbers: Machine, own: int) -> list[Instruction]:
    """Return the filter for the process `own`."""
    denied = return_action(refuse(errno.EPERM))
    instructions = [load_word(ARCHITECTURE), equal(numbers.audit, skip=1), (0x05, 0, 0, 1), return_action(KILL)]
    instructions += [load_word(NUMBER)]
    instructions += [at_least(_X32, skip=1), return_action(KILL)]
    # ENOSYS, so that programs fall back to the older call (clone3 to clone).
    instructions += [at_least(FIRST_OF_2019, skip=1), return_action(refuse(errno.ENOSYS))]
    for number in numbers.refused:
        instructions += [equal(number, skip=1), denied]
    # Threads are allowed, processes are not.
    is_thread = 0x45, 0, 1, CLONE_THREAD
    instructions += [equal(numbers.clone, skip=4), argument(0), is_thread, return_action(ALLOW), denied]
    for number in (numbers.kill, numbers.tgkill):
        instructions += [equal(number, skip=4), argument(0), equal(own, skip=1), return_action(ALLOW), denied]
    to_itself = [equal(0, skip=1), return_action(ALLOW), equal(own, skip=1), return_action(ALLOW), denied]
    instructions += [equal(numbers.prlimit, skip=1 + len(to_itself)), argument(0), *to_itself]
    for number, commands in ((numbers.fcntl, OTHERS_SIGNALS), (numbers.ioctl, OTHERS_TERMINALS)):
        checks = [check for command in commands for check in (equal(command, skip=1), denied)]
        instructions += [equal(number, skip=2 + len(checks)), argument(1), *checks, return_action(ALLOW)]
    return [*instructions, return_action(ALLOW)]


def install_filter(numbers: Machine, instructions: Sequence[Instruction]) -> None:
    """Filter this process, and the threads and processes that it starts from here on; raises OSError."""
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
    """Return the confinement that the kernel offers."""
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
