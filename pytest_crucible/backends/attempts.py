"""The failed attempts of one request: which of them use up its retries, and how long it waits after each."""

from __future__ import annotations

import random
from collections import Counter

from tenacity import RetryCallState

from pytest_crucible.backends.limiting.permits import RefusalJudge
from pytest_crucible.backends.silent_requests import SILENT
from pytest_crucible.records.errors import REFUSALS, BackendError, Retryable, Unanswered

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

    def __init__(self, retries: int, judge: RefusalJudge | None = None) -> None:
        """`retries`: failures that may follow the first; `judge` knows how often the server refuses, None counts all."""
        self._retries = retries
        self._judge = judge
        self._failures: list[Retryable] = []
        self._counted = 0
        self._refusals = 0
        """Refusals since the last failure of another kind."""
        self._is_excused = False

    def __bool__(self) -> bool:
        return bool(self._failures)

    def add(self, error: Retryable) -> None:
        """Record a failed attempt."""
        self._failures.append(error)
        is_refusal = error.kind in REFUSALS
        self._refusals = self._refusals + 1 if is_refusal else 0
        self._is_excused = is_refusal and self._judge is not None and self._judge.excuses(self._refusals)
        self._counted += not self._is_excused

    def are_used_up(self, state: RetryCallState) -> bool:
        """Return whether the request is not sent again: tenacity's `stop`."""
        return self._counted > self._retries

    def wait_s(self, state: RetryCallState) -> float:
        """Return the pause before the next attempt: tenacity's `wait`.

        Exponential backoff with full jitter, and at least the pause that the server asked for.
        https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        """
        seconds = self._pause_s(self._failures[-1].retry_after_s or 0.0)
        if self._judge is not None and self._refusals:
            self._judge.record_wait(seconds)
        return seconds

    def _pause_s(self, wanted: float) -> float:
        if self._is_excused:
            return wanted * DRAWS.uniform(1, 1 + SPREAD) if wanted else DRAWS.uniform(*CHANCE_S)
        return max(wanted, DRAWS.uniform(0, min(LONGEST_S, FIRST_S * 2.0 ** (self._counted - 1))))

    def final_error(self, seconds: float, *, has_answered: bool) -> BackendError:
        """Return the error of a request that used up its attempts; `has_answered`: the server answers others.

        >>> attempts = Attempts(retries=1)
        >>> for _ in range(2):
        ...     attempts.add(Retryable("no answer within 20 s", kind="timeout"))
        >>> attempts.final_error(41.0, has_answered=True)
        Unanswered('no answer in 2 attempts, in 41 s, from a server that answers others; the last: no answer within 20 s')
        """
        last = self._failures[-1]
        if has_answered and all(error.kind in SILENT for error in self._failures):
            facts = f"in {self._number}, in {seconds:.0f} s, from a server that answers others"
            return Unanswered(f"no answer {facts}; the last: {last}", kind=last.kind)
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
        return f"lost after {self._number} in {seconds:.0f} s: {kinds}; the last: {self._failures[-1]}"

    @property
    def _number(self) -> str:
        return "1 attempt" if len(self._failures) == 1 else f"{len(self._failures)} attempts"
