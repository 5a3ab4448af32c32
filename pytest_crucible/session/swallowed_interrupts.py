"""Raises KeyboardInterrupt again where Python swallows it: in finalizers, in generators that are closed, in garbage collection.

Python would print a stray traceback, and the session would go on as if there had been no signal.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

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
