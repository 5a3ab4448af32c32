"""The limiter against servers of all kinds, on a virtual clock: these figures depend on no machine."""

from __future__ import annotations

import math

import pytest
from asking import ask_all, ask_for
from simulated_servers import Bucket, Minutes, SimulatedServer, Slots

from pytest_crucible.backends.retried import DRAWS

SETTLED_S, END_S = 5, 60
"""What happens before is learning."""
MEAN = math.exp(0.3**2 / 2)
"""Of the lognormal factor on latencies."""


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    DRAWS.seed(0)


@pytest.mark.parametrize(
    ("settings", "seconds", "settled_s"),
    [
        *[
            ({"rate": 50, "burst": 50, "latency_s": latency_s, "retry_after_s": retry_after_s}, END_S, SETTLED_S)
            for latency_s in (0.01, 0.05, 0.5)
            for retry_after_s in (None, 1.0)
        ],
        *[({"rate": rate, "burst": rate}, seconds, 10) for rate, seconds in ((5, 300), (20, 100), (200, 20))],
        ({"rate": 5, "burst": 5, "latency_s": 5.0}, 300, 10),
        pytest.param({"rate": 50, "burst": 5}, END_S, SETTLED_S, marks=pytest.mark.slow),
    ],
)
def test_rate_limit_is_learned_and_held(settings, seconds, settled_s):
    server = Bucket(**settings)

    run = ask_for(seconds, server)

    assert server.accepted_rate(settled_s, seconds) >= 0.95 * server.rate
    assert server.refused_share(settled_s, seconds) < 0.02
    assert not run.errors


def test_falling_and_rising_limits_are_followed():
    server = Bucket(rate=50, burst=20, changes=[(20, 20), (40, 80)])

    run = ask_for(80, server)

    assert server.accepted_rate(25, 40) >= 0.95 * 20
    assert server.refused_share(25, 40) < 0.02
    assert server.accepted_rate(60, 80) >= 0.95 * 80
    assert server.refused_share(60, 80) < 0.02
    assert not run.errors


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["429", "503"])
def test_concurrency_limit_is_learned(kind):
    server = Slots(slots=10, kind=kind)

    run = ask_for(END_S, server)

    assert server.accepted_rate(SETTLED_S, END_S) >= 0.95 * 10 / (server.latency_s * MEAN)
    assert server.refused_share(SETTLED_S, END_S) < 0.02
    assert not run.errors


def test_minute_quota_is_used_without_losses():
    server = Minutes(most=600)

    run = ask_for(300, server)

    assert server.accepted_rate(0, 300) == pytest.approx(10, rel=0.02)
    assert not run.errors


class Sluggish(SimulatedServer):
    """Makes eight answers at a time, each in a second; a client that waits for too long hangs up."""

    def latency(self) -> float:
        return max(1.0, self.under_way / 8)


def test_concurrency_falls_until_nothing_times_out():
    server = Sluggish()

    run = ask_for(300, server, timeout_s=5.0)

    hung = [event for event in run.events_named("request.stop") if event.facts.get("error") == "timeout"]
    assert len(run.replies) >= 0.8 * 300 * 8
    assert len(hung) <= 0.2 * len(run.replies)
    assert not run.errors


def test_unlimited_server_is_used_fully():
    server = SimulatedServer(spread=0.0)

    run = ask_all(1_000, server)

    assert server.log[-1][0] == pytest.approx((1_000 // 64) * 0.05)
    assert len(run.replies) == 1_000
    assert not run.events_named("limiter.wait")


@pytest.mark.parametrize(
    ("limit", "most"),
    [
        ({"requests_per_second": 20}, 20),
        ({"concurrency": 2}, 2 / (0.05 * MEAN)),
        ({"tokens_per_minute": 60_000}, 60_000 / 60 / 100),
    ],
    ids=["requests", "concurrency", "tokens"],
)
def test_user_limit_is_used_and_not_exceeded(limit, most):
    server = SimulatedServer()

    ask_for(END_S, server, limit=limit)

    assert 0.95 * most <= server.accepted_rate(10, END_S) <= 1.03 * most
