"""The retry wrapper: sends a request again after a transient failure, with growing pauses; then the sample is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from pytest_crucible.backends.attempts import Attempts
from pytest_crucible.backends.limiting.permits import RefusalJudge
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.sample_clock import paused_clock
from pytest_crucible.backends.sample_slot import released_slot
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import Refused, Retryable, SpecError

# Attempts after the first.
RETRIES = 5
# A server that asks for a longer pause ends the experiment.
# A pause of ten minutes and more is a used-up quota, which no developer at a terminal waits for.
LONG_S = 600.0


class Retried(Wrapper):
    """The first attempt goes straight to the backend, so that tenacity costs nothing unless it fails.

    An attempt that waits holds no permit, because this wrapper is outside the limiter, and its sample no slot.
    """

    def __init__(
        self,
        inner: Backend,
        emit: Emit,
        *,
        retries: int = RETRIES,
        judge: RefusalJudge | None = None,
        has_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        """`judge` tells which refusals are chance and do not count; None counts all.

        `has_answered` returns whether the server has answered any request.
        """
        super().__init__(inner)
        self._has_answered = has_answered
        self._emit = emit
        self._retries = retries
        self._judge = judge

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
        attempts = Attempts(self._retries, self._judge)

        async def attempt() -> Reply:
            try:
                # tenacity counts calls, so the attempt that has failed already is replayed as its first.
                if not attempts:
                    raise first
                return await self.inner.generate(request)
            except Retryable as error:
                attempts.add(_check_wait(error))
                raise

        try:
            return await self._retry_policy(request, attempts)(attempt)
        except Retryable:
            seconds = asyncio.get_running_loop().time() - started
            raise attempts.final_error(seconds, has_answered=self._has_answered()) from None

    def _retry_policy(self, request: Request, attempts: Attempts) -> AsyncRetrying:
        return AsyncRetrying(
            stop=attempts.are_used_up,
            wait=attempts.wait_s,
            retry=retry_if_exception_type(Retryable),
            sleep=_sleep,
            before_sleep=self._retry_logger(request),
            reraise=True,
        )

    def _retry_logger(self, request: Request) -> Callable[[RetryCallState], None]:
        def log_retry(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            assert isinstance(error, Retryable)  # nothing else is retried
            facts = {"kind": error.kind, "attempt": state.attempt_number, "wait_s": state.upcoming_sleep}
            self._emit(Event.about("request.retry", request, facts=facts))

        return log_retry


async def _sleep(seconds: float) -> None:
    with paused_clock():
        async with released_slot():
            await asyncio.sleep(seconds)


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


def read_retries(adapter: Adapter) -> int:
    """Read `retries` of an adapter. Raises SpecError unless it is a count."""
    retries: Any = adapter.asking.get("retries", RETRIES)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise SpecError(
            f"adapter {adapter.name!r} has retries = {retries!r}: "
            "expected the number of times a failed request is sent again, for example 5, or 0 for never"
        )
    return retries
