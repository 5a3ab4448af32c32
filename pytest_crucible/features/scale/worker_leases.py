"""A worker's side of leased limits and budgets: it sends at its share, and reports requests and spending in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from pytest_crucible.backends.budget import UNLIMITED, Amount, SpendLedger
from pytest_crucible.backends.deadlines import paused_clock
from pytest_crucible.backends.limiting.control import CALM_S, NAMES, Control, LimiterState, Limits, Sent
from pytest_crucible.features.scale.budget_leases import SpendAnswer, SpendReport
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


# A call of a named actor takes about a millisecond: with 64 workers, a quarter of a core.
PERIOD_S = 0.2
# The shortest time between two exchanges, when something is urgent.
GAP_S = 0.02

Reports = Mapping[str, Any]
"""What a worker reports, by the name of the part: a server or a budget."""
Exchange = Callable[[Reports], Mapping[str, Any]]
"""Sends reports and returns the answers to them. May raise any error: then the same reports are sent again."""


class Part(Protocol):
    """A server's limits or a budget, as one worker uses it."""

    def report(self) -> Any:
        """Return what is to be sent. After an exchange that failed it is called again, and must lose nothing."""

    def apply(self, answer: Any, before: float) -> None:
        """Use an answer; `before` is the time before the report was sent, in seconds of `time.monotonic`."""


class LeaseClient:
    """The parts of one worker and the thread that exchanges their reports. The thread starts with the first part."""

    def __init__(self, exchange: Exchange, wait_for_news: Callable[[int], int]) -> None:
        """`wait_for_news` returns another number than it gets as soon as all workers should exchange, or after a while."""
        self._exchange, self._wait_for_news = exchange, wait_for_news
        self._parts: dict[str, Part] = {}
        self._changed, self._lock = threading.Event(), threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, name: str, part: Part) -> None:
        with self._lock:
            self._parts[name] = part
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="crucible-leases", daemon=True)
                self._thread.start()
                if self._wait_for_news is not None:
                    threading.Thread(
                        target=self._watch, args=(self._thread,), name="crucible-news", daemon=True
                    ).start()
        self.wake()

    def wake(self) -> None:
        """Exchange soon, and not only after the period."""
        self._changed.set()

    def flush(self) -> None:
        """Exchange now. Raises the error of the exchange."""
        with self._lock:
            parts, before = dict(self._parts), time.monotonic()
            if not parts:
                return
            answers = self._exchange({name: part.report() for name, part in parts.items()})
            for name, part in parts.items():
                part.apply(answers[name], before)

    def remove(self, name: str) -> None:
        """Send the last report of a part, and end the thread with the last one."""
        self._try_flush()
        with self._lock:
            self._parts.pop(name, None)
            thread = None if self._parts else self._thread
            if thread is not None:
                self._thread = None
        if thread is not None:
            self.wake()
            thread.join()

    def _run(self) -> None:
        while self._thread is threading.current_thread():
            self._changed.wait(PERIOD_S)
            self._changed.clear()
            self._try_flush()
            time.sleep(GAP_S)

    def _watch(self, thread: threading.Thread) -> None:
        version = 0
        while self._thread is thread:
            try:
                version = self._wait_for_news(version)
            except Exception:
                time.sleep(PERIOD_S)  # without news, there is the period
            self.wake()

    def _try_flush(self) -> None:
        # The leases end if it goes on; a run without its driver is ended by the cluster.
        with contextlib.suppress(Exception):
            self.flush()


# Leased in advance: as much as was reserved in so many periods of the exchange.
PERIODS = 2.0


@dataclass(slots=True)
class _Need:
    amount: Amount
    answer: asyncio.Future[bool]
    loop: asyncio.AbstractEventLoop


class LeasedLedger(SpendLedger):
    """A ledger that spends a lease. `report` and `apply` are called by the thread that exchanges leases.

    `spent` and `committed` are those of all workers, as of the last exchange.
    """

    def __init__(self, wake: Callable[[], None], close: Callable[[], None]) -> None:
        """`wake` asks for an exchange soon; `close` sends the last report."""
        super().__init__()
        self._wake, self._close, self._lock = wake, close, threading.Lock()
        self._limit = UNLIMITED
        self._lease = self._reserved = self._own = self._since = self._advance = Amount()
        """Leased, reserved, spent by this worker; reserved since the last report, and kept for the next ones."""
        self._is_short = False
        self._needs: list[_Need] = []
        self._reported: list[_Need] = []

    def take(self, amount: Amount, limit: Amount) -> bool:
        with self._lock:
            self._limit = limit
            after = self._reserved.plus(amount)
            if fits := after.within(_where_limited(self._lease, limit)):
                self._reserved, self._since = after, self._since.plus(amount)
            return fits

    def settle(self, reserved: Amount, spent: Amount) -> None:
        with self._lock:
            self._reserved = self._reserved.plus(reserved, -1.0)
            self._lease, self._own = self._lease.plus(spent, -1.0), self._own.plus(spent)

    async def lease_more(self, amount: Amount, limit: Amount) -> bool:
        loop = asyncio.get_running_loop()
        need = _Need(amount, loop.create_future(), loop)
        with self._lock:
            self._limit = limit
            self._needs.append(need)
        self._wake()
        try:
            with paused_clock():
                return await need.answer
        finally:
            with self._lock:
                if need in self._needs:
                    self._needs.remove(need)

    def close(self) -> None:
        self._close()

    def report(self) -> SpendReport:
        """Give back what is not needed, and return the state of this worker."""
        with self._lock:
            self._advance = Amount(*map(max, _times(self._since, PERIODS), _times(self._advance, 0.5)))
            self._since = Amount()
            # While workers wait, nothing is held in advance: two with half of what they need would wait for each other.
            advance = Amount() if self._needs or self._is_short else self._advance
            unused = self._lease.beyond(self._reserved)
            reserve = Amount(*map(min, unused, advance))
            self._lease = self._reserved.plus(reserve)
            self._reported = list(self._needs)
            needs = tuple(need.amount for need in self._reported)
            return SpendReport(self._limit, self._own, self._lease, needs, advance.beyond(reserve))

    def apply(self, answer: SpendAnswer, before: float) -> None:
        """Use what was added to the lease, and wake the requests that it is for."""
        with self._lock:
            self._lease = self._lease.plus(answer.added)
            self._amounts, self._is_short = (answer.committed, answer.spent), answer.is_short
            decided = [
                (need, decision)
                for need, decision in zip(self._reported, answer.decisions, strict=True)
                if decision != "wait"
            ]
            for need, _ in decided:
                if need in self._needs:
                    self._needs.remove(need)
        for need, decision in decided:
            need.loop.call_soon_threadsafe(_resolve, need.answer, decision == "granted")


def _resolve(answer: asyncio.Future[bool], is_granted: bool) -> None:
    if not answer.done():
        answer.set_result(is_granted)


def _where_limited(lease: Amount, limit: Amount) -> Amount:
    return Amount(*(part if most < math.inf else math.inf for part, most in zip(lease, limit, strict=True)))


def _times(amount: Amount, factor: float) -> Amount:
    return Amount().plus(amount, factor)
