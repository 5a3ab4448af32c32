"""Workers with leased limits before a simulated server: time is a number that the test moves on."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from dataclasses import dataclass, field

import pytest

from pytest_crucible.backends.limiting.control import Control, Limits, Sent
from pytest_crucible.backends.limiting.history import RefusalHistory
from pytest_crucible.features.scale import leases, worker_leases
from pytest_crucible.features.scale.leases import LeaseDesk
from pytest_crucible.features.scale.worker_leases import SAFE_S, LeasedState
from pytest_crucible.records import Reply
from pytest_crucible.records.errors import Retryable

STEP_S = 0.004
LATENCY_S = 0.05
PERIOD_S, GAP_S, CALL_S = 0.2, 0.02, 0.005


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(leases, "time", clock)
    monkeypatch.setattr(worker_leases, "time", clock)
    return clock


@dataclass
class Server:
    """A token bucket that refuses what is above its rate."""

    rate: float
    seconds: dict[int, list[int]] = field(default_factory=dict)
    """Requests and refusals by second."""
    tokens: float = 50.0
    filled_at: float = 0.0

    def take(self, now: float) -> bool:
        self.tokens = min(50.0, self.tokens + (now - self.filled_at) * self.rate)
        self.filled_at = now
        accepts = self.tokens >= 1
        self.tokens -= accepts
        counts = self.seconds.setdefault(int(now), [0, 0])
        counts[0] += 1
        counts[1] += not accepts
        return accepts

    def shares(self, start: int, end: int) -> tuple[float, float]:
        """Return the used share of the rate, and the refused share of requests."""
        counts = [self.seconds.get(second, [0, 0]) for second in range(start, end)]
        sent, refused = (sum(column) for column in zip(*counts, strict=True))
        return (sent - refused) / self.rate / (end - start), refused / max(1, sent)


class Worker:
    """Sends as many requests as its limiter lets through, 64 at a time."""

    def __init__(self, name: str, desk: LeaseDesk, seed: int, limits: Limits) -> None:
        self.name, self.desk, self.random = name, desk, random.Random(seed)
        self.is_urgent = self.is_dead = False
        self.state = LeasedState(Control(limits), self.hurry, lambda: None)
        self.history, self.ready = RefusalHistory(), 64
        self.in_flight: list[tuple[float, int, Sent, bool]] = []
        self.resting: list[float] = []
        self.exchange_at, self.sent = self.random.random() * PERIOD_S, 0
        self.answer: tuple[float, float, object] | None = None
        self.number = itertools.count()

    def hurry(self) -> None:
        self.is_urgent = True

    def work(self, now: float, server: Server) -> None:
        while self.resting and self.resting[0] <= now:
            heapq.heappop(self.resting)
            self.ready += 1
        while self.in_flight and self.in_flight[0][0] <= now:
            self._end(now, *heapq.heappop(self.in_flight)[2:])
        with self.state as control:
            while self.ready and not control.delay(now):
                sent = control.take(now)
                self.history.add(sent)
                self.ready -= 1
                self.sent += 1
                accepts = server.take(now)
                took = LATENCY_S * self.random.uniform(0.8, 1.3) if accepts else 0.002
                heapq.heappush(self.in_flight, (now + took, next(self.number), sent, accepts))
            self.state.wait(control, self.ready > 0)

    def _end(self, now: float, sent: Sent, accepts: bool) -> None:
        outcome = Reply(text="x") if accepts else Retryable("", kind="429")
        share = None if accepts else self.history.find_cluster(now, sent)
        with self.state as control:
            control.end(now, sent, outcome, share)
        sent.settled = True
        heapq.heappush(self.resting, now if accepts else now + self.random.uniform(0.2, 2.0))

    def exchange(self, now: float) -> bool:
        """Exchange leases when it is time; return whether there is news for others."""
        if self.answer is not None:
            if self.answer[0] <= now:
                _, before, share = self.answer
                self.answer = None
                self.state.apply(share, before)  # type: ignore[arg-type]
            return False
        if now < self.exchange_at and not (self.is_urgent and now >= self.exchange_at - PERIOD_S + GAP_S):
            return False
        self.is_urgent, self.exchange_at = False, now + PERIOD_S
        version = self.desk._version
        answers = self.desk.exchange(self.name, {"server": self.state.report()})
        self.answer = now + self.random.expovariate(1 / CALL_S), now, answers["server"]
        return self.desk._version != version


def simulate(clock: Clock, server: Server, workers: list[Worker], seconds: float) -> None:
    end = clock.now + seconds
    while clock.now < end:
        for worker in workers:
            if not worker.is_dead:
                worker.work(clock.now, server)
                if worker.exchange(clock.now):
                    for other in workers:
                        other.hurry()
        clock.now += STEP_S


def open_workers(count: int, seed: int = 0, limits: Limits | None = None) -> list[Worker]:
    desk = LeaseDesk()
    return [Worker(f"w{number}", desk, seed * 100 + number, limits or Limits()) for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "count"), [(0, 4), (1, 4), (2, 2), (3, 8)])
def test_workers_find_the_rate_of_a_server_together_and_use_it(clock, seed, count):
    server = Server(rate=50)
    simulate(clock, server, open_workers(count, seed), 30)
    used, refused = server.shares(5, 30)

    assert used >= 0.93
    assert refused < 0.02


@pytest.mark.slow
def test_a_rate_that_the_user_has_set_is_held_by_all_workers_together(clock):
    server = Server(rate=1000)
    simulate(clock, server, open_workers(4, limits=Limits(requests_per_second=40.0)), 6)
    used, refused = server.shares(1, 6)

    assert used * 1000 == pytest.approx(40, rel=0.05)
    assert refused == 0


def test_the_share_of_a_worker_that_died_is_used_by_the_others(clock):
    server, workers = Server(rate=1000), open_workers(2, limits=Limits(requests_per_second=40.0))
    simulate(clock, server, workers, 2)
    workers[0].is_dead = True
    workers[0].desk.forget("w0")
    before = workers[1].sent
    simulate(clock, server, workers, 2)

    assert workers[1].sent - before == pytest.approx(80, rel=0.1)


def test_a_worker_that_hears_nothing_stops_when_its_lease_ends(clock):
    server, [worker] = Server(rate=1000), open_workers(1, limits=Limits(requests_per_second=40.0))
    simulate(clock, server, [worker], 1)
    worker.exchange_at = math.inf
    worker.hurry = lambda: None  # type: ignore[method-assign]
    worker.is_urgent = False
    worker.state._wake = lambda: None
    simulate(clock, server, [worker], SAFE_S + 0.5)
    before = worker.sent
    simulate(clock, server, [worker], 1)

    assert worker.sent == before
