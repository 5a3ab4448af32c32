"""Asks again what failed in passing, a few times and ever later; then the sample is lost, and a sentence counts what happened."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_base

from pytest_crucible.backends.patience import not_counted
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.errors import BackendError, Refused, Retryable, SpecError
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request

RETRIES = 5
"""Attempts after the first."""
FIRST_S, LONGEST_S = 1.0, 30.0
"""The first wait is drawn from up to so many seconds, each next one from twice as much, up to the longest."""
LONG_S = 600.0
"""Who is told to come back later than this stops: so long nobody waits before a screen."""


class Retried(Wrapper):
    """The first attempt goes straight to the backend; what follows when it fails is tenacity's.

    An attempt that waits holds no turn: this wrapper is outside of the limiter.
    """

    def __init__(self, inner: Backend, emit: Emit, *, retries: int = RETRIES) -> None:
        super().__init__(inner)
        self._emit = emit
        self._retries = retries

    async def generate(self, request: Request) -> Reply:
        """Raises BackendError when all attempts are used up, and whatever is not Retryable."""
        started = asyncio.get_running_loop().time()
        try:
            return await self.inner.generate(request)
        except Retryable as error:
            first = error
        return await self._again(request, first, started)

    async def _again(self, request: Request, first: Retryable, started: float) -> Reply:
        """tenacity starts with what the first attempt came to."""
        failures: list[Retryable] = []

        async def attempt() -> Reply:
            try:
                if not failures:
                    raise first
                return await self.inner.generate(request)
            except Retryable as error:
                failures.append(_bearable(error))
                raise

        try:
            return await self._retrying(request)(attempt)
        except Retryable:
            seconds = asyncio.get_running_loop().time() - started
            raise BackendError(_sentence(failures, seconds)) from None

    def _retrying(self, request: Request) -> AsyncRetrying:
        return AsyncRetrying(
            stop=stop_after_attempt(1 + self._retries),
            wait=_Wait(),
            retry=retry_if_exception_type(Retryable),
            sleep=_sleep,
            before_sleep=self._teller(request),
            reraise=True,
        )

    def _teller(self, request: Request) -> Callable[[RetryCallState], None]:
        def tell(state: RetryCallState) -> None:
            facts = {"kind": _error(state).kind, "attempt": state.attempt_number, "wait_s": state.upcoming_sleep}
            self._emit(Event.about("request.retry", request, facts=facts))

        return tell


class _Wait(wait_base):
    """Exponential with full jitter, and not before the server wants to be asked. The draws disturb nobody's seed."""

    _draws = random.Random()

    def __call__(self, retry_state: RetryCallState) -> float:
        most = min(LONGEST_S, FIRST_S * 2.0 ** (retry_state.attempt_number - 1))
        return max(_error(retry_state).retry_after_s or 0.0, self._draws.uniform(0, most))


async def _sleep(seconds: float) -> None:
    with not_counted():
        await asyncio.sleep(seconds)


def _error(state: RetryCallState) -> Retryable:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, Retryable)  # nothing else is retried
    return error


def _bearable(error: Retryable) -> Retryable:
    if error.retry_after_s is not None and error.retry_after_s > LONG_S:
        raise Refused(
            f"{error}: the server asks to come back in {_how_long(error.retry_after_s)}; --crucible-resume goes on then"
        ) from None
    return error


def _how_long(seconds: float) -> str:
    """Of waits that nobody waits for.

    >>> _how_long(900), _how_long(9000), _how_long(900000), _how_long(float("inf"))
    ('15 minutes', '2 hours', '10 days', 'more than a year')
    """
    if seconds > 365 * 86400:
        return "more than a year"
    scales = ((86400, "days"), (3600, "hours"), (60, "minutes"))
    scale, unit = next((scale, unit) for scale, unit in scales if seconds >= 2 * scale)
    return f"{seconds / scale:.0f} {unit}"


def _sentence(failures: list[Retryable], seconds: float) -> str:
    """What happened, counted.

    >>> _sentence([Retryable("busy", kind="429")] * 5 + [Retryable("no answer within 20 s", kind="timeout")], 41.2)
    'lost after 6 attempts in 41 s: 429 x 5, timeout x 1; the last: no answer within 20 s'
    """
    counts = Counter(error.kind for error in failures)
    kinds = ", ".join(f"{kind} x {count}" for kind, count in counts.most_common())
    attempts = "1 attempt" if len(failures) == 1 else f"{len(failures)} attempts"
    return f"lost after {attempts} in {seconds:.0f} s: {kinds}; the last: {failures[-1]}"


def retries_of(adapter: Adapter) -> int:
    """`retries` of an adapter. Raises SpecError for what is no count."""
    given: Any = adapter.asking.get("retries", RETRIES)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise SpecError(
            f"adapter {adapter.name!r} has retries = {given!r}: write how often a request that failed is asked again, or 0"
        )
    return given
