"""The limits of a server, leased to the workers that send requests to it: the side that learns and divides.

It has the one `Control` of the server, to which workers report their requests. Its clock alone counts: a request is as old as
the lease under which it was sent, so that clocks of machines are never compared, and a refusal of a request that was sent
before workers knew of a cut causes no second one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from pytest_crucible.backends.limiting.control import Control, Limits, Sent
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import BackendError, Retryable

# A worker that was not heard of for so long has lost its share: several times what a busy machine is late.
LEASE_S = 5.0
# How long one worker keeps a place that does not divide.
TURN_S = 1.0
# A worker without waiting requests may begin to send this much faster before its next report.
HEADROOM = 1.5
# Rates within this factor of the present one show what the server allows now: the search for a limit exceeds it by no more.
PRESENT = 1.1


class Stamp(NamedTuple):
    """The time of the oldest lease in use, and the rate of all leases, when a request was sent.

    Until every worker has a lease from after a cut, refusals show the former rate.
    """

    at: float
    rate: float


class Ended(NamedTuple):
    """A request that has ended, or is known to be accepted while it is `open`."""

    stamp: Stamp
    crowd: float
    paced: bool
    settled: bool
    open: bool = False
    failure: tuple[str, float | None, bool] | None = None
    """Kind, seconds to wait and whether a quota is exhausted, of a failure that may pass."""
    answered: bool = True
    share_before: float | None = None


NO_LIMITS = Limits()
NOTHING = Limits(concurrency=0, requests_per_second=0.0, tokens_per_minute=0.0)


@dataclass(frozen=True, slots=True)
class LimitReport:
    """The requests of one worker since its last report that arrived."""

    number: int
    """The same until it is answered, so that nothing is counted twice."""
    limits: Limits = NO_LIMITS
    in_flight: float = 0.0
    waits: bool = False
    sent: Mapping[Stamp, int] = field(default_factory=dict)
    ended: Sequence[Ended] = ()
    server_limits: tuple[float | None, float | None] | None = None
    """Requests and tokens per second in the headers of responses, where they are new."""
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Learned:
    """The limits of a server that all workers know: infinite ones are unknown."""

    rate: float = math.inf
    concurrency: float = math.inf
    chance: float = 0.0
    """The share of refusals at any rate."""
    server_rate: float = math.inf
    server_tokens: float = math.inf


@dataclass(frozen=True, slots=True)
class Share:
    """One worker's part of the limits of a server, for `LEASE_S`."""

    stamp: Stamp
    limits: Limits
    pause_s: float
    """Seconds for which the server has asked all requests to pause."""
    calm_s: float
    """Seconds since the last refusal that counted."""
    others: float
    """Requests of other workers in flight."""
    learned: Learned


@dataclass(slots=True)
class _Holder:
    """One worker as the division knows it."""

    until: float = -math.inf
    share: Limits = NOTHING
    granted_at: float = -math.inf
    number: int = -1
    in_flight: float = 0.0
    waits: bool = True
    rate: float = 0.0
    """Requests per second of about the last second."""
    reported_at: float = 0.0


class LimitLeases:
    """The limits of one server and the workers that hold parts of them; each method gets the time as `now`."""

    def __init__(self) -> None:
        self.control = Control(Limits())
        self._holders: dict[str, _Holder] = {}

    def exchange(self, worker: str, report: LimitReport, now: float) -> Share:
        """Record what a worker reports and return its new share. Workers that are silent for too long lose theirs."""
        for silent in [name for name, holder in self._holders.items() if holder.until < now and name != worker]:
            self.forget(silent)
        holder = self._holders.setdefault(worker, _Holder())
        self.control.tighten(report.limits)
        if report.number > holder.number:
            self._record(holder, report, now)
        if report.leaves:
            share = self._share(NOTHING, holder, now)
            self.forget(worker)
            return share
        holder.waits, holder.until = report.waits, now + LEASE_S
        holder.share, holder.granted_at = self._part(worker, now), now
        return self._share(holder.share, holder, now)

    @property
    def news(self) -> object:
        """A value that changes when all workers have to slow down."""
        control = self.control
        return control.pacing.cubic.cut_at, control.window.cubic.cut_at, control.paused_until

    def forget(self, worker: str) -> None:
        """Return the share of a worker that has died: others get it at their next exchange."""
        holder = self._holders.pop(worker, None)
        if holder is not None:
            self.control.window.held -= holder.in_flight

    def _record(self, holder: _Holder, report: LimitReport, now: float) -> None:
        control = self.control
        for stamp, count in report.sent.items():
            for _ in range(count):
                control.window.take(spare=False)
                self._pace(stamp, now)
        unreported = self._count_unreported(holder, now)
        control.pacing.sent += unreported
        for ended in report.ended:
            self._end(ended, now)
        control.pacing.sent -= unreported
        if report.server_limits is not None:
            control.set_server_limits(*report.server_limits)
        count = sum(report.sent.values())
        # An exponential average over about a second; a worker that was silent for longer has no rate yet.
        passed = min(1.0, max(1e-3, now - holder.reported_at)) if holder.number >= 0 else 1.0
        holder.rate += (count / passed - holder.rate) * passed
        control.window.held += report.in_flight - holder.in_flight - count + _leaving(report.ended)
        holder.in_flight, holder.number, holder.reported_at = report.in_flight, report.number, now

    def _count_unreported(self, holder: _Holder, now: float) -> float:
        """Estimate the requests that others have sent since their last reports: without them, a cut would look like a collapse."""
        if self.control.pacing.rate == math.inf:
            return 0.0
        others = (other for other in self._holders.values() if other is not holder and other.number >= 0)
        return sum(min(other.rate, other.share.requests_per_second) * (now - other.reported_at) for other in others)

    def _pace(self, stamp: Stamp, now: float) -> None:
        pacing = self.control.pacing
        # A request of a lease from before a trial was sent at the former rate.
        if pacing.trial.is_running and stamp.at < pacing.trial.began:
            pacing.sent += 1
        else:
            pacing.take(now)

    def _end(self, ended: Ended, now: float) -> None:
        control = self.control
        # Acceptances from before a cut, or at a rate far below the present one, do not show that more is allowed.
        is_present = ended.stamp.at >= control.pacing.cubic.cut_at and ended.stamp.rate * PRESENT >= control.pacing.rate
        paced = ended.paced and is_present
        sent = Sent(ended.stamp.at, ended.crowd, paced, 0.0, spare=False, settled=ended.settled)
        if ended.open:
            control.accept(sent)
        else:
            control.end(now, sent, _outcome(ended), ended.share_before)

    def _part(self, worker: str, now: float) -> Limits:
        """Return a worker's part of what is allowed, less what others hold of the limits that the user has set."""
        control, holders = self.control, self._holders
        window, meter = control.window, control.token_meter
        rates = {name: math.inf if holder.waits else holder.rate * HEADROOM for name, holder in holders.items()}
        places = {name: math.inf if holder.waits else holder.in_flight + 1 for name, holder in holders.items()}
        tokens = min(meter.most, meter.server_limit)
        whole = divide_whole(window.size, places, int(now / TURN_S))

        def within(target: float, most: float, held: Callable[[_Holder], float]) -> float:
            others = sum(held(holder) for name, holder in holders.items() if name != worker)
            return target if most == math.inf else max(0.0, min(target, most - others))

        return Limits(
            concurrency=within(
                whole[worker], window.most, lambda holder: max(holder.share.concurrency, holder.in_flight)
            ),
            requests_per_second=within(
                divide(control.pacing.rate, rates)[worker],
                control.pacing.most,
                lambda holder: holder.share.requests_per_second,
            ),
            tokens_per_minute=within(
                divide(tokens, rates)[worker], meter.most, lambda holder: holder.share.tokens_per_minute
            ),
        )

    def _share(self, part: Limits, holder: _Holder, now: float) -> Share:
        control = self.control
        pacing, window = control.pacing, control.window
        refused_at = max(pacing.cubic.cut_at, window.cubic.cut_at)
        return Share(
            Stamp(
                min(other.granted_at for other in self._holders.values()),
                sum(other.share.requests_per_second for other in self._holders.values()),
            ),
            part,
            pause_s=max(0.0, control.paused_until - now),
            calm_s=now - refused_at,
            others=max(0.0, window.held - holder.in_flight),
            learned=Learned(
                rate=pacing.cubic.limit,
                concurrency=window.cubic.limit,
                chance=pacing.chance.share,
                server_rate=pacing.server_limit,
                server_tokens=control.token_meter.server_limit,
            ),
        )


def _leaving(ended: Sequence[Ended]) -> int:
    return sum(not request.open for request in ended)


def _outcome(ended: Ended) -> Reply | BaseException | None:
    if ended.failure is not None:
        kind, retry_after_s, quota_exhausted = ended.failure
        return Retryable("", kind=kind, retry_after_s=retry_after_s, quota_exhausted=quota_exhausted)
    return BackendError("") if ended.answered else None


def divide(limit: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Return each worker's part of a limit: at most what it wants while others want more (max-min fairness).

    What is left over is divided equally, so that a worker that begins to send has a part already.

    >>> divide(50, {"a": math.inf, "b": 10, "c": math.inf})
    {'a': 20.0, 'b': 10.0, 'c': 20.0}
    >>> divide(50, {"a": 10, "b": 20})
    {'a': 20.0, 'b': 30.0}
    """
    if limit == math.inf:
        return dict.fromkeys(wants, math.inf)
    parts, left, many = dict.fromkeys(wants, 0.0), limit, len(wants)
    for worker in sorted(wants, key=wants.__getitem__):
        parts[worker] = min(wants[worker], left / many)
        left -= parts[worker]
        many -= 1
    return {worker: part + max(0.0, left) / len(wants) for worker, part in parts.items()}


def divide_whole(limit: float, wants: Mapping[str, float], turn: int) -> dict[str, float]:
    """Return whole parts of a limit. What does not divide goes round: with each turn to the next workers.

    >>> divide_whole(1, {"a": math.inf, "b": math.inf}, turn=0), divide_whole(1, {"a": math.inf, "b": math.inf}, turn=1)
    ({'a': 1, 'b': 0}, {'a': 0, 'b': 1})
    """
    parts = divide(limit, wants)
    if limit == math.inf:
        return parts
    whole: dict[str, float] = {worker: math.floor(part) for worker, part in parts.items()}
    workers = list(whole)
    # Those that want more come first; a worker without requests takes no slot from one that waits.
    order = [workers[(number + turn) % len(workers)] for number in range(len(workers))]
    order.sort(key=lambda worker: whole[worker] >= wants[worker])
    for worker in order[: math.floor(limit - sum(whole.values()))]:
        whole[worker] += 1
    return whole
