"""A worker's side of leased limits: it sends at its share, and reports its requests instead of learning from them."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pytest_crucible.backends.limiting.control import CALM_S, NAMES, Control, LimiterState, Limits, Sent
from pytest_crucible.features.scale.limit_leases import LEASE_S, Ended, LimitReport, Share, Stamp
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError, Retryable

NO_STAMP = Stamp(0.0, 0.0)
# A lease ends earlier for its holder than for the division, which counts from a later moment: clocks may drift.
SAFE_S = 0.9 * LEASE_S
# How often waiting requests look for a new share.
POLL_S = 0.02


@dataclass(slots=True)
class LeasedSent(Sent):
    """A request in flight, with the lease under which it was sent."""

    stamp: Stamp = NO_STAMP


class LeasedControl(Control):
    """The limits of one worker. Nothing is sent without a lease."""

    __slots__ = ("_calm_since", "_others", "_stamp", "_until", "ended", "is_urgent", "limits", "sent", "server_limits")

    def __init__(self, limits: Limits, ordinary: float) -> None:
        super().__init__(limits, ordinary)
        self.limits = limits
        self.ended: list[Ended] = []
        self.sent: Counter[Stamp] = Counter()
        self.server_limits: tuple[float | None, float | None] | None = None
        self.is_urgent = False
        """Whether the other workers should hear of this soon."""
        self._stamp, self._until, self._others, self._calm_since = NO_STAMP, -math.inf, 0.0, -math.inf
        # A bucket that begins full would allow each worker one request at once.
        self.pacing.rate = self.pacing.tokens = 0.0

    def apply(self, share: Share, now: float, until: float) -> None:
        """Send at this share until then."""
        self._stamp, self._until, self._others = share.stamp, until, share.others
        pacing, window, meter, learned = self.pacing, self.window, self.token_meter, share.learned
        if 0 < pacing.rate < math.inf:
            pacing.delay(now, self.paused_until)  # count the time at the former rate
        else:
            pacing.tokens, pacing.filled_at = 0.0, now
        pacing.rate, window.size = share.limits.requests_per_second, share.limits.concurrency
        meter.most = share.limits.tokens_per_minute
        # For texts and for retries, which depend on what the server allows in all.
        pacing.cubic.limit, pacing.server_limit = learned.rate, learned.server_rate
        pacing.chance.share = pacing.chance.recent = learned.chance
        window.cubic.limit = learned.concurrency
        self.paused_until = now + share.pause_s
        self._calm_since = now - share.calm_s

    @property
    def is_empty(self) -> bool:
        """True if the share, or what is left of it, allows no request."""
        return not (self.pacing.rate and self.window.size and self.token_meter.most)

    def delay(self, now: float, *, spare: bool = False) -> float:
        if now >= self._until or self.is_empty:
            return math.inf
        return super().delay(now, spare=spare)

    def can_spare(self, now: float) -> bool:
        is_calm = now - max(self._calm_since, self.paused_until - CALM_S) >= CALM_S
        return is_calm and not self.waiting and self.delay(now, spare=True) == 0

    def take(self, now: float, *, spare: bool = False) -> Sent:
        sent = super().take(now, spare=spare)
        self.sent[self._stamp] += 1
        return LeasedSent(sent.at, sent.crowd + self._others, sent.paced, sent.charged, sent.spare, stamp=self._stamp)

    def accept(self, sent: Sent) -> None:
        if not sent.settled:
            sent.settled = True
            self.ended.append(Ended(_stamp(sent), sent.crowd, sent.paced, settled=False, open=True))

    def end(
        self, now: float, sent: Sent, outcome: Reply | BaseException | None, share_before: float | None = None
    ) -> None:
        self.window.leave(spare=sent.spare)
        tokens = (outcome.input_tokens or 0) + (outcome.output_tokens or 0) if isinstance(outcome, Reply) else 0
        self.token_meter.settle(sent.charged, tokens or None)
        failure = None
        if isinstance(outcome, Retryable):
            failure = outcome.kind, outcome.retry_after_s, outcome.quota_exhausted
            self.is_urgent = True
        answered = isinstance(outcome, Reply | BackendError)
        ended = Ended(_stamp(sent), sent.crowd, sent.paced, sent.settled, False, failure, answered, share_before)
        self.ended.append(ended)

    def tighten(self, limits: Limits) -> None:
        self.limits = Limits(**{name: min(getattr(self.limits, name), getattr(limits, name)) for name in NAMES})

    def set_server_limits(self, requests_a_second: float | None, tokens_a_second: float | None) -> None:
        self.server_limits = requests_a_second, tokens_a_second


def _stamp(sent: Sent) -> Stamp:
    return sent.stamp if isinstance(sent, LeasedSent) else Stamp(sent.at, 0.0)


class LeasedState(LimiterState):
    """The state of one server's limiter in a worker. `report` and `apply` are called by the thread that exchanges leases."""

    poll_s = POLL_S

    def __init__(self, control: Control, wake: Callable[[], None], close: Callable[[], None]) -> None:
        """`control` has the limits of the user; `wake` asks for an exchange soon, `close` sends the last report."""
        limits = Limits(
            concurrency=control.window.most,
            requests_per_second=control.pacing.most,
            tokens_per_minute=control.token_meter.most,
        )
        self._leased = LeasedControl(limits, control.window.ordinary)
        super().__init__(self._leased)
        self._wake, self._close, self._lock, self._number = wake, close, threading.Lock(), 0
        self._unanswered: LimitReport | None = None
        self._leaves = False

    def __enter__(self) -> Control:
        self._lock.acquire()
        return self._leased

    def __exit__(self, *error: object) -> None:
        control = self._leased
        # Others should hear of a refusal at once; a worker whose share is 0 asks for another.
        is_urgent = control.is_urgent or (control.waiting > 0 and control.is_empty)
        control.is_urgent = False
        self._lock.release()
        if is_urgent:
            self._wake()

    def wait(self, control: Control, waits: bool) -> None:
        control.waiting = float(waits)

    def close(self) -> None:
        with self._lock:
            self._leaves = True
        self._close()

    def report(self) -> LimitReport:
        """Return the requests since the last report that was answered."""
        with self._lock:
            control, before = self._leased, self._unanswered
            if before is None:
                self._number += 1
                before = LimitReport(
                    self._number,
                    sent=dict(control.sent),
                    ended=tuple(control.ended),
                    server_limits=control.server_limits,
                )
                control.sent.clear()
                control.ended.clear()
                control.server_limits = None
            # Those that are not reported yet were sent or have ended since.
            unreported = sum(control.sent.values()) - sum(not ended.open for ended in control.ended)
            self._unanswered = replace(
                before,
                limits=control.limits,
                in_flight=control.window.held - unreported,
                waits=bool(control.waiting),
                leaves=self._leaves,
            )
            return self._unanswered

    def apply(self, share: Share, before: float) -> None:
        """Send at a share that was asked for at this time."""
        with self._lock:
            self._unanswered = None
            self._leased.apply(share, time.monotonic(), before + SAFE_S)
