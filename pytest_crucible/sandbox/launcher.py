"""The launcher: a process between pytest and a program of the suite, which ends with all that the program has started.

It reads a line of JSON from its standard input, starts the program, and ends like it, with its exit status or by its signal. A
further byte, or the end of its input because pytest is gone, ends the program before. What cannot be started is a line in the pipe
`report`.

It is run by its path, and imports the package only to confine a program: that takes as long as ten starts of an interpreter.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# Seconds between two looks at processes that were killed.
_LOOK_S = 0.005
# A process that the kernel does not end, such as one that waits for a broken disk, is left.
_MOST_KILL_S = 5.0
CANNOT_START = 127


def main() -> None:
    """Start the program of the first line, and end as it does."""
    order = json.loads(_read_line(0))
    if sys.platform == "linux":
        # Processes whose parents have ended become children of this one, wherever they went.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ended, ended_end = os.pipe()
    os.set_blocking(ended_end, False)
    signal.set_wakeup_fd(ended_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    program = _start(order)
    status = _wait(program, ended)
    if status is None:
        _signal_all(program, signal.SIGTERM)
        status = _wait_until(program, time.monotonic() + order["grace_s"])
    _kill_all(program)
    _end_like(os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL)


def _read_line(descriptor: int) -> bytes:
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return bytes(line)


def _start(order: Mapping[str, Any]) -> int:
    program = os.fork()
    if program == 0:
        try:
            _become(order)
        except BaseException as error:
            sentence = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            os.write(order["report"], sentence.encode())
        finally:
            os._exit(CANNOT_START)
    os.close(order["report"])
    return program


def _become(order: Mapping[str, Any]) -> NoReturn:
    """Replace this process, a fresh fork, by the program. Raises OSError."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # The report is closed by a successful start.
    os.set_inheritable(order["report"], False)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if order["confined"]:
        sys.path.insert(0, order["root"])
        from pytest_crucible.sandbox.program_profile import confine

        confine(order["writable"], order["files"], order["port"])
    os.execv(order["program"], order["command"])


def _wait(program: int, ended: int) -> int | None:
    """Return the program's status when it has ended; None when it has to be ended."""
    while True:
        ready = select.select([0, ended], (), ())[0]
        if ended in ready:
            os.read(ended, 1 << 10)
        if (status := _reap(program)) is not None:
            return status
        if 0 in ready:
            return None


def _wait_until(program: int, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        if (status := _reap(program)) is not None:
            return status
        time.sleep(_LOOK_S)
    return None


def _reap(program: int) -> int | None:
    """Wait for all processes that have ended, and return the program's status if it is among them."""
    status = None
    with suppress(ChildProcessError):
        while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
            status = reaped[1] if reaped[0] == program else status
    return status


def _signal_all(program: int, number: int) -> None:
    """Send a signal to all processes below this one, or where they are not known to those of the program's group."""
    if sys.platform != "linux":
        with suppress(OSError):
            os.killpg(program, number)
    for process in _descendants():
        with suppress(OSError):
            os.kill(process, number)


def _kill_all(program: int) -> None:
    deadline = time.monotonic() + _MOST_KILL_S
    if sys.platform != "linux":
        _signal_all(program, signal.SIGKILL)
    # Again, for a process may have started another one meanwhile.
    while _has_children(program) and time.monotonic() < deadline:
        _signal_all(program, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _has_children(program: int) -> bool:
    """Return whether a process is left: on Linux each whose parents have ended is a child of this one."""
    _reap(program)
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _descendants() -> Iterator[int]:
    """Yield all processes below this one, from /proc; none on a machine without it."""
    parents: dict[int, int] = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{int(name)}/stat", "rb") as file:
                # The name before the state is the program's own choice, and may hold brackets.
                parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    below = {os.getpid()}
    while further := {process for process, parent in parents.items() if parent in below} - below:
        below |= further
        yield from further


def _end_like(status: int) -> NoReturn:
    """End with the exit status, or by the signal, of the program."""
    if status < 0:
        with suppress(ImportError):
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with suppress(OSError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(max(status, 0))


if __name__ == "__main__":
    main()
