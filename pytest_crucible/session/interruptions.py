"""Ends a session in order when it is interrupted: by Ctrl-C, SIGTERM (a cancelled job) or SIGHUP (a closed terminal).

tests run           Ctrl-C is Python's own; the other signals raise KeyboardInterrupt, too
models are called   the signal waits until requests in flight can be cancelled
workers of xdist    the controller passes the signal on to them (worker_links), and their last rows are waited for
the session ends    the first signal waits until verdicts and reports are complete; a second one ends the session at once
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any

import pytest

# `timeout` and `uv run` send a signal to a process and to its group: the second of the two is not a second wish.
REPEAT_S = 1.0
_ENDS_PROCESS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interruptions:
    """The signal handlers of a session. A pytest plugin; installs nothing outside of the main thread."""

    def __init__(self, config: pytest.Config) -> None:
        self._replaced: dict[int, Any] = {}
        self._received_at: float | None = None
        self.received = int(signal.SIGINT)
        """The last signal; Python's own handler of Ctrl-C leaves no trace here."""
        self._pending = ""
        self._waits = False
        self._finishing = False
        self._closing = False
        self._is_reported = False
        """Whether pytest is reporting an interrupt: an exception would leave its own handler as a traceback."""
        self._swallowed = SwallowedInterrupts(self._receive_again)
        # Registered first, so it runs last: a signal while the session closes must not leave a traceback.
        config.add_cleanup(self._restore)
        # `nohup` ignores SIGHUP, and another plugin may have a handler of its own: both are left.
        for number in _ENDS_PROCESS:
            self._replace(number, signal.SIG_DFL)
        # Ctrl-C reaches a worker of xdist from the terminal and from the controller: the two are one.
        if hasattr(config, "workerinput"):
            self._replace(signal.SIGINT, signal.default_int_handler)

    @contextlib.contextmanager
    def defer_signals(self) -> Iterator[None]:
        """Let signals wait for `check`, or for the end of the block: garbage collection and imports would swallow them."""
        ours = signal.SIGINT in self._replaced
        self._replace(signal.SIGINT, signal.default_int_handler)
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
            if not ours:
                self._put_back(signal.SIGINT)
            # Also after an error, so that the session does not start the next test.
            self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal is waiting."""
        self._take_swallowed()
        if self._pending:
            name, self._pending = self._pending, ""
            raise _interrupt(name, self._finishing)

    def begin_ending(self, *, interrupted: bool) -> None:
        """Defer signals until the session has ended; `interrupted` is True when one has been received already."""
        self._replace(signal.SIGINT, signal.default_int_handler)
        self._waits = True
        if interrupted and self._received_at is None:
            self._received_at = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        """Start no test after a signal that a finalizer swallowed."""
        self.check()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Let a further signal wait for the end of the session, which is next."""
        self.begin_ending(interrupted=True)
        self._is_reported = True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Complete reports and summary first; a signal that was received meanwhile is the exit status."""
        self.begin_ending(interrupted=False)
        self._finishing, is_second = True, self._is_reported
        self._is_reported = False
        try:
            if is_second:
                self.check()
            yield
        finally:
            self._closing = True
        self._take_swallowed()
        if self._pending:
            session.exitstatus = pytest.ExitCode.INTERRUPTED
            terminal = session.config.pluginmanager.get_plugin("terminalreporter")
            if terminal is not None:
                terminal.write_line(f"{self._pending} arrived after the last reply: verdicts and reports are complete")

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now, before = time.monotonic(), self._received_at
        if signal.Signals(number).name == "SIGHUP":
            replace_lost_terminal()
        if before is not None and now - before < REPEAT_S:
            return
        self.received, self._received_at, self._pending = number, now, signal.Signals(number).name
        # Each part that is closed has its own time limit.
        if not (self._closing or self._is_reported) and (before is not None or not self._waits):
            self.check()

    def _replace(self, number: int, usual: Any) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and number not in self._replaced and signal.getsignal(number) == usual:
            self._replaced[number] = signal.signal(number, self._handle)

    def _put_back(self, number: int) -> None:
        usual = self._replaced.pop(number, None)
        if usual is not None and signal.getsignal(number) == self._handle:
            signal.signal(number, usual)

    def _receive_again(self) -> int:
        """Return the signal to send again; it is not a repetition of itself."""
        self._received_at = None
        return self.received

    def _take_swallowed(self) -> None:
        """Receive a swallowed signal now that is not sent again yet: the session might end before."""
        number = self._swallowed.take()
        if number is not None:
            self._pending = signal.Signals(number).name

    def _restore(self) -> None:
        self._swallowed.uninstall()
        for number in tuple(self._replaced):
            self._put_back(number)


def _interrupt(name: str, finishing: bool) -> BaseException:
    if finishing:
        # pytest reports this exception in one line where KeyboardInterrupt would be a traceback.
        return pytest.exit.Exception(f"{name}: reports may be incomplete", returncode=pytest.ExitCode.INTERRUPTED)
    return KeyboardInterrupt() if name == "SIGINT" else KeyboardInterrupt(name)


# Long enough to have left a finalizer, and short enough for someone who has pressed Ctrl-C.
AGAIN_S = 0.05


class SwallowedInterrupts:
    """A `sys.unraisablehook` that calls `on_swallowed`, which returns the signal to send again; other errors are passed on."""

    def __init__(self, on_swallowed: Callable[[], int]) -> None:
        self._on_swallowed = on_swallowed
        self._previous = sys.unraisablehook
        self._waiting: int | None = None
        sys.unraisablehook = self._handle

    def uninstall(self) -> None:
        """Put the previous hook back, unless another one has been installed since."""
        self.take()
        if sys.unraisablehook == self._handle:
            sys.unraisablehook = self._previous

    def take(self) -> int | None:
        """Return the signal that waits to be sent again, which is then not sent; None without one."""
        number, self._waiting = self._waiting, None
        return number

    def _handle(self, unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._previous(unraisable)
            return
        # Not at once: this hook is called inside the finalizer.
        self._waiting = self._on_swallowed()
        timer = threading.Timer(AGAIN_S, self._send)
        timer.daemon = True
        timer.start()

    def _send(self) -> None:
        number = self.take()
        if number is not None:
            raise_in_main_thread(number)


def raise_in_main_thread(number: int) -> None:
    """Send a signal to the main thread of this process, from another thread."""
    # Windows has no pthread_kill, and interrupt_main does not wake a main thread that waits for a lock.
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)


def replace_lost_terminal() -> None:
    """Let every descriptor of a closed terminal lead nowhere. Pytest's capturing has descriptors of its own for standard output."""
    with contextlib.suppress(OSError):
        lost = [number for number in map(int, os.listdir("/dev/fd")) if _is_lost(number)]
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in lost:
            os.dup2(nowhere, number, os.get_inheritable(number))
        os.close(nowhere)


def _is_lost(number: int) -> bool:
    try:
        # Writes nothing; a terminal that has hung up reports an I/O error even for an empty text.
        os.write(number, b"")
    except OSError as error:
        return error.errno == errno.EIO
    return False
