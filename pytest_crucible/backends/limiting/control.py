"""What is known of a server, and what follows from it: how long the next request has to wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_crucible.backends.limiting.limits import Limits
from pytest_crucible.backends.limiting.pacing import Pacing
from pytest_crucible.backends.limiting.token_meter import TokenMeter
from pytest_crucible.backends.limiting.window import Window
from pytest_crucible.errors import BackendError, Retryable
from pytest_crucible.records import Reply

REFUSED = "429"
OVERLOADED = frozenset({"503", "529", "timeout"})
UNKNOWN = "connection"
"""A failure that says nothing about how much a server bears."""
LONGEST_PAUSE_S = 600.0
"""What is asked to pause for longer is not asked again in this run."""
CALM_S = 5.0
"""How long after a refusal nothing is asked that need not be."""


@dataclass(slots=True)
class Sent:
    """A request that is under way, and what its end is to be judged by."""

    at: float
    crowd: float
    """How many were under way, with it."""
    paced: bool
    """Whether the next one had to wait for it."""
    charged: float
    """The tokens that it is expected to use."""
    spare: bool
    settled: bool = False
    """Whether it is known to be accepted, or over."""


class Control:
    """Plain numbers and no clock of its own: every method that needs the time is told it, in seconds of one clock.

    >>> control = Control(Limits(requests_per_second=50))
    >>> control.delay(0.0)
    0.0
    >>> _ = control.take(0.0)
    >>> control.delay(0.0)
    0.02
    """

    __slots__ = ("pacing", "paused_until", "processes", "token_meter", "waiting", "window")

    def __init__(self, limits: Limits, ordinary: float = math.inf) -> None:
        self.window = Window(limits.concurrency, ordinary)
        self.pacing = Pacing(limits.requests_per_second)
        self.token_meter = TokenMeter(limits.tokens_per_minute)
        self.paused_until = 0.0
        self.waiting = 0.0
        """How many processes have requests that wait."""
        self.processes = 1.0

    def delay(self, now: float, *, spare: bool = False) -> float:
        """Seconds until one more may be sent: 0 for now, infinite until one that is under way has come back."""
        if now < self.paused_until:
            return self.paused_until - now
        if self.window.is_full(spare=spare):
            return math.inf
        return max(self.pacing.delay(now, self.paused_until), self.token_meter.delay(now))

    def can_spare(self, now: float) -> bool:
        """Is there room for a request that need not be?"""
        refused_at = max(self.pacing.ceiling.cut_at, self.window.ceiling.cut_at, self.paused_until - CALM_S)
        return not self.waiting and now - refused_at >= CALM_S and self.delay(now, spare=True) == 0

    def take(self, now: float, *, spare: bool = False) -> Sent:
        """Send one."""
        return Sent(now, self.window.take(spare=spare), self.pacing.take(now), self.token_meter.take(), spare)

    def accept(self, sent: Sent) -> None:
        """A request was not refused: it is answered, or under way for so long that it will not be."""
        if not sent.settled:
            sent.settled = True
            self.window.accept(sent.crowd)
            self.pacing.accept(sent.paced)

    def end(self, now: float, sent: Sent, outcome: Reply | BaseException | None) -> None:
        """A request is over. From cancellations, and from what is no backend's error, nothing is learned."""
        self.window.leave(spare=sent.spare)
        self.token_meter.settle(sent.charged, _tokens(outcome))
        if isinstance(outcome, Retryable):
            self._fail(now, sent, outcome)
        elif isinstance(outcome, Reply | BackendError):
            self.accept(sent)

    def tighten(self, limits: Limits) -> None:
        """No more than this is allowed, either."""
        self.window.allow(limits.concurrency)
        self.pacing.allow(limits.requests_per_second)
        self.token_meter.most = min(self.token_meter.most, limits.tokens_per_minute)

    def hear(self, requests_a_second: float | None, tokens_a_second: float | None) -> None:
        """The server says what it allows."""
        if requests_a_second is not None:
            self.pacing.hear(requests_a_second)
        if tokens_a_second is not None:
            self.token_meter.told = tokens_a_second * 60

    def _fail(self, now: float, sent: Sent, error: Retryable) -> None:
        pause_s = max(0.0, error.retry_after_s or 0.0)
        if pause_s > LONGEST_PAUSE_S:  # who was told so stops, and whoever else comes asks for himself
            pause_s = 0.0
        if error.kind == REFUSED:
            self.pacing.descent.refuse()
            if not self.window.refuse(now, sent.at, sent.crowd):
                self.pacing.refuse(now, self.paused_until, sent.at, pause_s)
        elif error.kind in OVERLOADED:
            if error.kind == "timeout" or not self.window.refuse(now, sent.at, sent.crowd):
                self.window.overload(now, sent.at)
        elif error.kind != UNKNOWN:
            self.accept(sent)
        self.paused_until = max(self.paused_until, now + pause_s)


def _tokens(outcome: Reply | BaseException | None) -> float | None:
    if not isinstance(outcome, Reply) or (outcome.input_tokens is None and outcome.output_tokens is None):
        return None
    return float((outcome.input_tokens or 0) + (outcome.output_tokens or 0))
