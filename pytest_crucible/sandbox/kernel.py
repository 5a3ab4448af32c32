"""Linux system calls that Python has no function for, and those that a confined program is refused."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

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
    """The system call numbers of one kind of machine."""

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


def _column(number: int) -> tuple[int, ...]:
    words = _REFUSED.split()
    rows = (words[k : k + 3] for k in range(0, len(words), 3))
    return tuple(int(row[number]) for row in rows if row[number] != "-")


MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(0xC000003E, 444, 56, 62, 234, 302, 72, 16, 317, 126, _column(1)),
    "aarch64": Machine(0xC00000B7, 444, 220, 129, 131, 261, 25, 29, 277, 91, _column(2)),
}


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
