"""A server's limits, leased to workers: never more than the limit, whatever workers do and die."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.limiting.control import Limits
from pytest_crucible.features.scale.limit_leases import LEASE_S, Ended, LimitLeases, LimitReport, Share, Stamp

LIMITS = Limits(concurrency=10, requests_per_second=50.0, tokens_per_minute=6000.0)
STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(("waits", "idle", "silent", "dies", "leaves")),
        st.integers(0, 12),
        st.floats(0.0, 3.0),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_shares_never_add_up_to_more_than_the_users_limits(steps):
    leases, now = LimitLeases(), 0.0
    held: dict[str, tuple[Share, float]] = {}
    number = dict.fromkeys("abcd", 0)
    for worker, action, in_flight, passed in steps:
        now += passed
        if action == "dies":
            # The driver says so: it has no requests that count any more.
            leases.forget(worker)
            held.pop(worker, None)
        elif action != "silent":
            number[worker] += 1
            # A worker never has more in flight than its share allowed.
            allowed = held[worker][0].limits.concurrency if worker in held else 0
            report = LimitReport(
                number[worker],
                LIMITS,
                in_flight=min(in_flight, allowed),
                waits=action == "waits",
                leaves=action == "leaves",
            )
            share = leases.exchange(worker, report, now)
            held[worker] = share, now + LEASE_S
        shares = [share.limits for share, until in held.values() if until >= now]
        assert sum(share.requests_per_second for share in shares) <= LIMITS.requests_per_second * (1 + 1e-9)
        assert sum(share.tokens_per_minute for share in shares) <= LIMITS.tokens_per_minute * (1 + 1e-9)
        assert sum(share.concurrency for share in shares) <= LIMITS.concurrency


def exchange_twice(leases: LimitLeases, now: float, **waits: bool) -> dict[str, Limits]:
    """Return the shares of workers after two exchanges of each: the first ones set free what the second ones take."""
    shares = {}
    for round_ in range(2):
        for worker, waiting in waits.items():
            number = int(now * 1000) + round_
            shares[worker] = leases.exchange(worker, LimitReport(number, LIMITS, waits=waiting), now).limits
    return shares


def test_workers_that_wait_share_a_limit_and_others_keep_what_is_left_over():
    shares = exchange_twice(LimitLeases(), 1.0, a=True, b=True)

    assert [share.requests_per_second for share in shares.values()] == pytest.approx([25, 25])
    assert [share.concurrency for share in shares.values()] == [5, 5]


def test_the_share_of_a_dead_worker_returns_at_once_when_the_driver_says_so_and_else_when_its_lease_ends():
    leases = LimitLeases()
    exchange_twice(leases, 1.0, a=True, b=True)

    assert exchange_twice(leases, 2.0, a=True)["a"].requests_per_second == pytest.approx(25)
    assert exchange_twice(leases, 1.0 + LEASE_S + 0.1, a=True)["a"].requests_per_second == pytest.approx(50)

    exchange_twice(leases, 10.0, a=True, b=True)
    leases.forget("b")
    assert exchange_twice(leases, 10.1, a=True)["a"].requests_per_second == pytest.approx(50)


def test_requests_of_a_dead_worker_are_in_flight_no_more():
    leases = LimitLeases()
    leases.exchange("a", LimitReport(1, LIMITS, in_flight=4, sent={Stamp(0.0, 50.0): 4}), 0.0)
    assert leases.control.window.held == 4

    leases.forget("a")
    assert leases.control.window.held == 0


def test_a_report_that_arrives_twice_counts_once():
    leases = LimitLeases()
    report = LimitReport(1, LIMITS, in_flight=3, waits=True, sent={Stamp(0.0, 50.0): 3})
    leases.exchange("a", report, 0.0)
    leases.exchange("a", report, 0.1)

    assert leases.control.window.held == 3


def refusals(stamp: Stamp, count: int, **fields: object) -> tuple[Ended, ...]:
    return tuple(
        Ended(stamp, 5.0, paced=True, settled=False, failure=("429", None, False), share_before=0.0, **fields)
        for _ in range(count)
    )


def test_what_one_worker_learns_from_refusals_holds_for_all():
    leases = LimitLeases()
    for worker in "ab":
        leases.exchange(worker, LimitReport(1, waits=True), 0.0)
    stamp = leases.exchange("a", LimitReport(2, waits=True), 0.1).stamp
    before = leases.news
    leases.exchange("a", LimitReport(3, waits=True, sent={stamp: 40}, ended=refusals(stamp, 1)), 1.0)
    rate = leases.control.pacing.rate

    assert rate < math.inf
    assert leases.news != before
    assert leases.exchange("b", LimitReport(2, waits=True), 1.1).limits.requests_per_second == pytest.approx(rate / 2)


def test_a_pause_that_a_server_asks_one_worker_for_holds_for_all():
    leases = LimitLeases()
    for worker in "ab":
        leases.exchange(worker, LimitReport(1), 0.0)
    stamp = leases.exchange("a", LimitReport(2), 0.1).stamp
    pause = Ended(stamp, 1.0, paced=False, settled=False, failure=("429", 7.0, True))
    leases.exchange("a", LimitReport(3, sent={stamp: 1}, ended=(pause,)), 1.0)

    assert leases.exchange("b", LimitReport(2), 2.0).pause_s == pytest.approx(6.0)


def test_refusals_cut_once_until_all_workers_have_a_lease_from_after_the_cut():
    leases = LimitLeases()
    for worker in "ab":
        leases.exchange(worker, LimitReport(1, waits=True), 0.0)
    stamp = leases.exchange("a", LimitReport(2, waits=True), 0.1).stamp
    leases.exchange("a", LimitReport(3, waits=True, sent={stamp: 40}, ended=refusals(stamp, 1)), 1.0)
    rate = leases.control.pacing.rate

    stamp = leases.exchange("a", LimitReport(4, waits=True), 1.1).stamp
    leases.exchange("a", LimitReport(5, waits=True, sent={stamp: 2}, ended=refusals(stamp, 2)), 1.2)
    assert leases.control.pacing.rate == rate, "b still sends at the former rate"

    leases.exchange("b", LimitReport(2, waits=True), 1.3)
    stamp = leases.exchange("a", LimitReport(6, waits=True), 1.4).stamp
    leases.exchange("a", LimitReport(7, waits=True, sent={stamp: 2}, ended=refusals(stamp, 2)), 1.5)
    assert leases.control.pacing.rate < rate
