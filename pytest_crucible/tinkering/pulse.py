"""Whether a service that is not ours is still there: the SDK itself would try for minutes, and for some errors for ever.

Two things can be wrong. A service may be gone: no connection, or no word, not even to a question after its health. Then
waiting is over after `GONE_S`. Or it answers, but only that it is overloaded or broken (429, 5xx): the SDK asks again, and
that is right, for `BUSY_S`. What helps in both cases is a sign that the opposite is true, and then all is forgotten.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from pytest_crucible.backends.tinker_errors import is_unreachable
from pytest_crucible.errors import Refused, Retryable

GONE_S = 3.0
"""Without any answer, however short, for so long: gone. With the silence before and the look after it this is within 5 s."""
BUSY_S = 30.0
"""With nothing but errors of the service's own for so long: it is not waited for any more."""
QUIET_S = 1.0
"""After so long without a word a service that is waited for is asked after its health."""
UNPAID = 402
ASIDE = ("SESSION", "TELEMETRY")
"""Kinds of the SDK's requests that go well while no sample is answered: heartbeats, and what it tells of itself."""


class Pulse:
    """Hears of all that the SDK gets from one service, and asks after its health where it gets nothing."""

    def __init__(self, name: str, probe: Callable[[], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`probe` returns when there was any answer, and raises when there was none within `GONE_S`."""
        self._name, self._probe, self._clock = name, probe, clock
        self._word_at = self._asked_at = clock()
        self._silent: tuple[float, str] | None = None
        self._busy: tuple[float, int] | None = None
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    def check(self, waited_s: float = 0.0) -> None:
        """For those who wait, several times a second. Raises BackendError when waiting is in vain.

        A service that is gone is so for all; one that is busy for those alone who have waited long enough themselves, since
        whoever comes new may be luckier.
        """
        now = self._asked_at = self._clock()
        if self._watch is None or not self._watch.is_alive():
            self._watch = threading.Thread(target=self._ask_after_health, name="tinker-pulse", daemon=True)
            self._watch.start()
        silent, busy = self._silent, self._busy
        if silent is not None and now - silent[0] >= GONE_S:
            raise Retryable(f"{self._name} does not answer any more: {silent[1]}", kind="connection")
        if busy is None:
            return
        since, status = busy
        lasted = min(now - since, waited_s)
        if status == UNPAID and lasted >= GONE_S:
            raise Refused(f"{self._name} answers nothing but status {UNPAID}: it wants to be paid first")
        if lasted >= BUSY_S:
            raise Retryable(f"{self._name} has answered nothing but status {status} for {BUSY_S:g} s", kind=str(status))

    def heard(self, error: BaseException | None, *, aside: bool = False) -> None:
        """What one request came to; None is success. One `aside`, such as a heartbeat, tells only that somebody is there."""
        status = getattr(error, "status_code", None)
        if isinstance(status, int) or error is None:
            self._word_at, self._silent = self._clock(), None
            if aside:
                return
            if isinstance(status, int) and _is_trouble(status):
                self._busy = self._busy or (self._word_at, status)
            else:
                self._busy = None
        elif is_unreachable(error):
            self._silent = self._silent or (self._clock(), _said(error))

    def listen(self, holder: Any) -> None:
        """Hear of every request of an SDK's client from now on."""
        inner = getattr(holder, "aclient", None)
        if inner is None:
            return

        @contextlib.contextmanager
        def aclient(kind: Any) -> Iterator[Any]:
            aside = getattr(kind, "name", "") in ASIDE
            with inner(kind) as client:
                try:
                    yield client
                except Exception as error:
                    self.heard(error, aside=aside)
                    raise
                self.heard(None, aside=aside)

        holder.aclient = aclient

    def close(self) -> None:
        """Ask no more."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.join(GONE_S)

    def _ask_after_health(self) -> None:
        """While somebody waits and nothing is heard; `check` starts it again."""
        while not self._stopped.wait(QUIET_S / 4) and self._clock() - self._asked_at < 2 * QUIET_S:
            started = self._clock()
            if self._silent is None and started - self._word_at < QUIET_S:
                continue
            try:
                self._probe()
            except Exception as error:
                self._silent = self._silent or (started, _said(error))
            else:
                self._word_at, self._silent = self._clock(), None


def _is_trouble(status: int) -> bool:
    """Whether a service says so that it cannot do at present what it is there for."""
    return status >= 500 or status in (UNPAID, 409, 429)


def _said(error: BaseException) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__
