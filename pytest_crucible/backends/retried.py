"""The retry wrapper: sends a request again after a transient failure, with growing pauses; then the sample is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_base

from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.sample_clock import paused_clock
from pytest_crucible.backends.silent_requests import SILENT
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError, Unanswered

# Attempts after the first.
RETRIES = 5
# The first pause is drawn from 0 to FIRST_S seconds; the range doubles with each attempt, up to LONGEST_S.
# Longest pause: half a minute is a usual restart; beyond it, waiting longer no longer relieves a busy server.
FIRST_S, LONGEST_S = 1.0, 30.0
# A server that asks for a longer pause ends the experiment.
# A pause of ten minutes and more is a used-up quota, which no developer at a terminal waits for.
LONG_S = 600.0


class Retried(Wrapper):
    """The first attempt goes straight to the backend, so that tenacity costs nothing unless it fails.

    An attempt that waits holds no permit: this wrapper is outside the limiter.
    """

    def __init__(
        self,
        inner: Backend,
        emit: Emit,
        *,
        retries: int = RETRIES,
        has_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        """`has_answered` returns whether the server has answered any request."""
        super().__init__(inner)
        self._has_answered = has_answered
        self._emit = emit
        self._retries = retries

    async def generate(self, request: Request) -> Reply:
        """Raises BackendError when all attempts have failed, and at once any error that is not Retryable."""
        started = asyncio.get_running_loop().time()
        try:
            return await self.inner.generate(request)
        except Retryable as error:
            first = error
        return await self._retry(request, first, started)

    async def _retry(self, request: Request, first: Retryable, started: float) -> Reply:
        """Retry with tenacity, whose first attempt is the one that has already failed."""
        failures: list[Retryable] = []

        async def attempt() -> Reply:
            try:
                # tenacity counts calls, so the attempt that has failed already is replayed as its first.
                if not failures:
                    raise first
                return await self.inner.generate(request)
            except Retryable as error:
                failures.append(_check_wait(error))
                raise

        try:
            return await self._retry_policy(request)(attempt)
        except Retryable:
            seconds = asyncio.get_running_loop().time() - started
            raise _final_error(failures, seconds, has_answered=self._has_answered()) from None

    def _retry_policy(self, request: Request) -> AsyncRetrying:
        return AsyncRetrying(
            stop=stop_after_attempt(1 + self._retries),
            wait=_Wait(),
            retry=retry_if_exception_type(Retryable),
            sleep=_sleep,
            before_sleep=self._retry_logger(request),
            reraise=True,
        )

    def _retry_logger(self, request: Request) -> Callable[[RetryCallState], None]:
        def log_retry(state: RetryCallState) -> None:
            facts = {"kind": _error(state).kind, "attempt": state.attempt_number, "wait_s": state.upcoming_sleep}
            self._emit(Event.about("request.retry", request, facts=facts))

        return log_retry


class _Wait(wait_base):
    """Exponential backoff with full jitter, and at least the pause that the server asked for.

    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """

    # A generator of its own: the global one may have been seeded by the user.
    _draws = random.Random()

    def __call__(self, retry_state: RetryCallState) -> float:
        most = min(LONGEST_S, FIRST_S * 2.0 ** (retry_state.attempt_number - 1))
        return max(_error(retry_state).retry_after_s or 0.0, self._draws.uniform(0, most))


async def _sleep(seconds: float) -> None:
    with paused_clock():
        await asyncio.sleep(seconds)


def _error(state: RetryCallState) -> Retryable:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, Retryable)  # nothing else is retried
    return error


def _check_wait(error: Retryable) -> Retryable:
    if error.retry_after_s is not None and error.retry_after_s > LONG_S:
        raise Refused(
            f"{error}: the server asks for a pause of {_format_wait(error.retry_after_s)}; "
            "resume with --crucible-resume after it"
        ) from None
    return error


def _format_wait(seconds: float) -> str:
    """Return a long pause as text.

    >>> _format_wait(900), _format_wait(9000), _format_wait(900000), _format_wait(float("inf"))
    ('15 minutes', '2 hours', '10 days', 'more than a year')
    """
    if seconds > 365 * 86400:
        return "more than a year"
    scales = ((86400, "days"), (3600, "hours"), (60, "minutes"))
    scale, unit = next((scale, unit) for scale, unit in scales if seconds >= 2 * scale)
    return f"{seconds / scale:.0f} {unit}"


def _final_error(failures: list[Retryable], seconds: float, *, has_answered: bool) -> BackendError:
    """Return the error of a request that used up its attempts.

    >>> _final_error([Retryable("no answer within 20 s", kind="timeout")] * 6, 121.0, has_answered=True)
    Unanswered('no answer in 6 attempts, in 121 s, from a server that answers others; the last: no answer within 20 s')
    """
    if has_answered and all(error.kind in SILENT for error in failures):
        attempts = "1 attempt" if len(failures) == 1 else f"{len(failures)} attempts"
        facts = f"in {attempts}, in {seconds:.0f} s, from a server that answers others"
        return Unanswered(f"no answer {facts}; the last: {failures[-1]}", kind=failures[-1].kind)
    return BackendError(_sentence(failures, seconds))


def _sentence(failures: list[Retryable], seconds: float) -> str:
    """Return the message for a lost sample, with the failures counted by kind.

    >>> _sentence([Retryable("busy", kind="429")] * 5 + [Retryable("no answer within 20 s", kind="timeout")], 41.2)
    'lost after 6 attempts in 41 s: 429 x 5, timeout x 1; the last: no answer within 20 s'
    """
    counts = Counter(error.kind for error in failures)
    kinds = ", ".join(f"{kind} x {count}" for kind, count in counts.most_common())
    attempts = "1 attempt" if len(failures) == 1 else f"{len(failures)} attempts"
    return f"lost after {attempts} in {seconds:.0f} s: {kinds}; the last: {failures[-1]}"


def read_retries(adapter: Adapter) -> int:
    """Read `retries` of an adapter. Raises SpecError unless it is a count."""
    retries: Any = adapter.asking.get("retries", RETRIES)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise SpecError(
            f"adapter {adapter.name!r} has retries = {retries!r}: "
            "expected the number of times a failed request is sent again, for example 5, or 0 for never"
        )
    return retries
