"""The retry wrapper: sends a request again after a transient failure, with growing pauses; then the sample is lost."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable

from pytest_crucible.backends.circuit_breaker import SILENT
from pytest_crucible.backends.deadlines import paused_clock, released_slot
from pytest_crucible.backends.limiting.limiter import Limiter
from pytest_crucible.backends.protocol import Backend, Wrapper, is_whole, read_setting
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import REFUSALS, BackendError, Refused, Retryable, Unanswered
from pytest_crucible.stats.number_format import quantity

# The first pause is drawn from 0 to FIRST_S seconds; the range doubles with each attempt, up to LONGEST_S.
# Longest pause: half a minute is a usual restart; beyond it, waiting longer no longer relieves a busy server.
FIRST_S, LONGEST_S = 1.0, 30.0
# Pause after a refusal by chance for which the server asks none. It does not grow: the limiter watches the load.
CHANCE_S = (0.05, 0.15)
# How much longer than asked a request waits at most, so that those refused together do not return together.
SPREAD = 0.02
# A generator of its own: the global one may have been seeded by the user.
DRAWS = random.Random()


class Attempts:
    """A refusal that chance explains does not count: on a server that refuses 30 %, one request in 1,400 is refused 6 times."""

    def __init__(self, retries: int, judge: Limiter | None = None) -> None:
        """`retries`: failures that may follow the first; `judge` knows how often the server refuses, None counts all."""
        self._retries = retries
        self._judge = judge
        self._failures: list[Retryable] = []
        self._counted = 0
        self._refusals = 0
        """Refusals since the last failure of another kind."""
        self._is_excused = False

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def last(self) -> Retryable:
        return self._failures[-1]

    @property
    def are_used_up(self) -> bool:
        """True if the request is not sent again."""
        return self._counted > self._retries

    def add(self, error: Retryable) -> None:
        """Record a failed attempt."""
        self._failures.append(error)
        is_refusal = error.kind in REFUSALS
        self._refusals = self._refusals + 1 if is_refusal else 0
        self._is_excused = is_refusal and self._judge is not None and self._judge.excuses(self._refusals)
        self._counted += not self._is_excused

    def wait_s(self) -> float:
        """Return the pause before the next attempt.

        Exponential backoff with full jitter, and at least the pause that the server asked for.
        https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        """
        pause_s = self.last.retry_after_s or 0.0
        if self._is_excused:
            seconds = pause_s * DRAWS.uniform(1, 1 + SPREAD) if pause_s else DRAWS.uniform(*CHANCE_S)
        else:
            seconds = max(pause_s, DRAWS.uniform(0, min(LONGEST_S, FIRST_S * 2.0 ** (self._counted - 1))))
        if self._judge is not None and self._refusals:
            self._judge.record_wait(seconds)
        return seconds

    def final_error(self, seconds: float, *, has_answered: bool) -> BackendError:
        """Return the error of a request that used up its attempts; `has_answered`: the server answers others.

        >>> attempts = Attempts(retries=1)
        >>> for _ in range(2):
        ...     attempts.add(Retryable("no answer within 20 s", kind="timeout"))
        >>> attempts.final_error(41.0, has_answered=True)
        Unanswered('no answer in 2 attempts, in 41 s, from a server that answers others; the last: no answer within 20 s')
        """
        if has_answered and all(error.kind in SILENT for error in self._failures):
            facts = f"in {quantity(len(self), 'attempt')}, in {seconds:.0f} s, from a server that answers others"
            return Unanswered(f"no answer {facts}; the last: {self.last}", kind=self.last.kind)
        return BackendError(self.sentence(seconds))

    def sentence(self, seconds: float) -> str:
        """Return the message for a lost sample, with the failures counted by kind.

        >>> attempts = Attempts(retries=5)
        >>> for error in [Retryable("busy", kind="429")] * 5 + [Retryable("no answer within 20 s", kind="timeout")]:
        ...     attempts.add(error)
        >>> attempts.sentence(41.2)
        'lost after 6 attempts in 41 s: 429 x 5, timeout x 1; the last: no answer within 20 s'
        """
        counts = Counter(error.kind for error in self._failures)
        kinds = ", ".join(f"{kind} x {count}" for kind, count in counts.most_common())
        return f"lost after {quantity(len(self), 'attempt')} in {seconds:.0f} s: {kinds}; the last: {self.last}"


# Attempts after the first.
RETRIES = 5
# A server that asks for a longer pause ends the experiment.
# A pause of ten minutes and more is a used-up quota, which no developer at a terminal waits for.
LONG_S = 600.0


class Retried(Wrapper):
    """An attempt that waits holds no permit, because this wrapper is outside the limiter, and its sample no slot."""

    def __init__(
        self,
        inner: Backend,
        emit: Emit,
        *,
        retries: int = RETRIES,
        judge: Limiter | None = None,
        has_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        """`judge` tells which refusals are chance; `has_answered` returns whether the server has answered any request."""
        super().__init__(inner)
        self._has_answered = has_answered
        self._emit = emit
        self._retries = retries
        self._judge = judge

    async def generate(self, request: Request) -> Reply:
        """Raises BackendError when all attempts have failed, and at once any error that is not Retryable."""
        loop = asyncio.get_running_loop()
        started, attempts = loop.time(), None
        while True:
            try:
                return await self.inner.generate(request)
            except Retryable as error:
                attempts = attempts or Attempts(self._retries, self._judge)
                attempts.add(_check_wait(error))
            if attempts.are_used_up:
                raise attempts.final_error(loop.time() - started, has_answered=self._has_answered()) from None
            await self._wait(request, attempts)

    async def _wait(self, request: Request, attempts: Attempts) -> None:
        seconds = attempts.wait_s()
        facts = {"kind": attempts.last.kind, "attempt": len(attempts), "wait_s": seconds}
        self._emit(Event.about("request.retry", request, number=request.sent.count, facts=facts))
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
    expected = "the number of times a failed request is sent again, for example 5, or 0 for never"
    return read_setting(adapter, "retries", RETRIES, lambda count: is_whole(count) and count >= 0, expected)
