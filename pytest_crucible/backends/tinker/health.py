"""Errors of Tinker's SDK, translated, and the health of a remote service, monitored.

The SDK itself would retry for minutes, and after some errors for ever. Two things can be wrong. A service may be gone: no
connection, or no response, not even to a health check. Then waiting ends after `GONE_S`. Or it responds only that it is
overloaded or broken (429, 5xx): then the SDK may retry for `BUSY_S`. One sign of the opposite ends both states.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_crucible.backends.context import QueueState
from pytest_crucible.records.errors import BackendError, Refused, Retryable

FINAL = (401, 402, 403, 404)
"""HTTP statuses that a retry cannot change: a bad key, an unpaid bill, an unknown checkpoint."""
PASSING = (408, 409, 410, 429)
"""Statuses, besides 5xx, after which a retry may succeed."""
LOST = (404, 410)
"""Statuses of requests about a session or model that the service does not know."""
_CONNECTION = ("APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError")
_TOO_LONG = re.compile(r"context|too long|(maximum|max)\b.{0,20}\b(length|tokens)", re.IGNORECASE)


def translate_error(error: BaseException, hide: Callable[[str], str] = str) -> BackendError:
    """Return the error as one of this package's. `hide` removes keys from its sentence.

    >>> translate_error(TimeoutError("late")).kind
    'timeout'
    """
    message = hide(f"Tinker gave no answer: {error_text(error)}")
    kind = _passing_kind(error)
    if kind is not None:
        return Retryable(message, kind=kind, retry_after_s=_retry_after_s(error))
    return Refused(message) if getattr(error, "status_code", None) in FINAL else BackendError(message)


def is_too_long(error: BaseException) -> bool:
    """Return whether the service refused a prompt that is longer than the model's context."""
    about_request = getattr(error, "category", None) == "user" or getattr(error, "status_code", None) in (400, 413, 422)
    return about_request and bool(_TOO_LONG.search(error_text(error)))


def is_lost(error: BaseException) -> bool:
    """Return whether the service is gone, or has lost its sessions and models, as after a restart."""
    return getattr(error, "status_code", None) in LOST or _passing_kind(error) in ("connection", "timeout", "410")


def error_text(error: BaseException) -> str:
    """Return the message of an error of the SDK, without its wrapping."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping):
        for name in ("detail", "error", "message"):
            if isinstance(body.get(name), str):
                return str(body[name])
    text = str(getattr(error, "message", "") or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def is_unreachable(error: BaseException) -> bool:
    """Return whether the service did not respond at all."""
    return bool(_names(error) & set(_CONNECTION))


def _passing_kind(error: BaseException) -> str | None:
    names, status = _names(error), getattr(error, "status_code", None)
    if "APIResponseValidationError" in names:  # its status is that of a response which cannot be read
        return "garbage"
    # A status is more exact than the class of the error.
    if isinstance(status, int):
        return str(status) if status in PASSING or status >= 500 else None
    if is_unreachable(error):
        return "timeout" if any("Timeout" in name for name in names) else "connection"
    if "RetryableException" in names:  # the service has lost the request
        return "410"
    return "server" if getattr(error, "category", None) in ("server", "unknown") else None


def _names(error: BaseException) -> set[str]:
    """Return the names of an error's classes, so that the SDK need not be imported to test for them."""
    return {kind.__name__ for kind in type(error).__mro__}


def _retry_after_s(error: BaseException) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return float(headers["retry-after"])
    except (KeyError, TypeError, ValueError):
        return None


GONE_S = 3.0
"""A service without any response for this long is gone. With the silence before it and the check after it: within 5 s."""
BUSY_S = 30.0
"""A service that responds only with errors of its own for this long is not waited for any longer."""
QUIET_S = 1.0
"""After this long without a response, the health of a service that is waited for is checked."""
# The status of an account without credit: retrying helps only after a payment.
UNPAID = 402
ASIDE = ("SESSION", "TELEMETRY")
"""Kinds of the SDK's requests that succeed while no sample is answered: heartbeats and telemetry."""


class HealthMonitor:
    """Records every response that the SDK gets from one service, and checks the service's health while there are none."""

    def __init__(self, name: str, probe: Callable[[], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        """`probe` returns after any response, and raises when none came within `GONE_S`."""
        self._name, self._probe, self._clock = name, probe, clock
        self._word_at = self._asked_at = clock()
        self._silent: tuple[float, str] | None = None
        self._busy: tuple[float, int] | None = None
        self._stopped = threading.Event()
        self._watch: threading.Thread | None = None

    def check(self, waited_s: float = 0.0) -> None:
        """Raise BackendError when waiting is in vain; called several times a second by each request that waits.

        A service that is gone is gone for every request. A busy one fails only requests that have waited long enough
        themselves, because a new request may be luckier.
        """
        now = self._asked_at = self._clock()
        # The thread ends when no request waits any more, and starts with the next one that does.
        if self._watch is None or not self._watch.is_alive():
            self._watch = threading.Thread(target=self._ask_after_health, name="tinker-pulse", daemon=True)
            self._watch.start()
        silent, busy = self._silent, self._busy
        if silent is not None and now - silent[0] >= GONE_S:
            raise Retryable(f"{self._name} does not answer any more: {silent[1]}", kind="connection")
        if busy is None:
            return
        since, status = busy
        # Since when the service is busy matters less than how long this request has waited for it.
        lasted = min(now - since, waited_s)
        if status == UNPAID and lasted >= GONE_S:
            raise Refused(f"{self._name} responds only with status {UNPAID}: it requires payment; check the account")
        if lasted >= BUSY_S:
            raise Retryable(f"{self._name} has responded only with status {status} for {BUSY_S:g} s", kind=str(status))

    def heard(self, error: BaseException | None, *, aside: bool = False) -> None:
        """Record the result of one request; None is success. One `aside`, such as a heartbeat, only proves a connection."""
        status = getattr(error, "status_code", None)
        if isinstance(status, int) or error is None:
            self._word_at, self._silent = self._clock(), None
            # A heartbeat does not show that samples are answered.
            if aside:
                return
            # The service cannot work at present.
            if isinstance(status, int) and (status >= 500 or status in (UNPAID, 409, 429)):
                self._busy = self._busy or (self._word_at, status)
            else:
                self._busy = None
        elif is_unreachable(error):
            self._silent = self._silent or (self._clock(), _describe(error))

    def listen(self, holder: Any) -> None:
        """Record every request of an SDK's client from now on."""
        # Private to the SDK: a version without it is used unwatched.
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
        self._stopped.set()
        if self._watch is not None:
            self._watch.join(GONE_S)

    def _ask_after_health(self) -> None:
        """Check the service's health while a request waits and nothing is received; `check` starts it again."""
        while not self._stopped.wait(QUIET_S / 4) and self._clock() - self._asked_at < 2 * QUIET_S:
            started = self._clock()
            if self._silent is None and started - self._word_at < QUIET_S:
                continue
            try:
                self._probe()
            except Exception as error:
                self._silent = self._silent or (started, _describe(error))
            else:
                self._word_at, self._silent = self._clock(), None


def _describe(error: BaseException) -> str:
    return str(error).strip().rstrip(".") or type(error).__name__


_CAUSES = {"paused_rate_limit": "rate limit", "paused_capacity": "capacity"}


def watch_queue(client: Any, service: str, queue: QueueState) -> None:
    """Report the queue state of a SamplingClient or TrainingClient to `queue` from now on."""
    # A SamplingClient is its own observer; a TrainingClient has one, which is private to the SDK. Without one it is unwatched.
    observer = getattr(client, "_queue_state_logger", client)
    inner = getattr(observer, "on_queue_state_change", None)
    if inner is None:
        return

    def on_queue_state_change(state: Any, *reason: Any) -> None:
        name = getattr(state, "value", str(state))
        cause = _CAUSES.get(name, name) + (f" ({reason[0]})" if reason and reason[0] else "")
        queue.report("" if name == "active" else f"{service} is paused: {cause}")
        inner(state, *reason)

    observer.on_queue_state_change = on_queue_state_change
