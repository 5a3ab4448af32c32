"""Budgets, leased to workers: never more than the budget, whatever workers do and die."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.budget import Account, Amount, Budget
from pytest_crucible.features.scale.budget_leases import BudgetLeases, SpendReport
from pytest_crucible.features.scale.leases import LeaseDesk
from pytest_crucible.features.scale.limit_leases import LEASE_S
from pytest_crucible.features.scale.worker_leases import LeaseClient, LeasedLedger
from pytest_crucible.records import Request
from pytest_crucible.records.errors import Spent

LIMIT = Amount(usd=float("inf"), tokens=1000.0, requests=20.0)
STEPS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(("exchange", "take", "settle", "lost answer", "dies")),
        st.integers(1, 400),
        st.floats(0.0, 2.0),
    ),
    max_size=60,
)


def without_waking() -> None:
    """Nothing to wake: the test exchanges by itself."""


@given(steps=STEPS)
def test_what_is_spent_and_leased_never_exceeds_the_budget(steps):
    desk, now, serial = BudgetLeases(), 0.0, 0
    ledgers = {name: (name, LeasedLedger(without_waking, without_waking)) for name in "abc"}
    reserved: dict[str, list[Amount]] = {name: [] for name in "abc"}
    sent = Amount()
    for name, action, tokens, passed in steps:
        now += passed
        identity, ledger = ledgers[name]
        amount = Amount(tokens=float(tokens), requests=1.0)
        if action == "take" and ledger.take(amount, LIMIT):
            # From now on, the request may be billed.
            reserved[name].append(amount)
            sent = sent.plus(amount)
        elif action == "settle" and reserved[name]:
            spent = reserved[name].pop()
            half = Amount(tokens=spent.tokens / 2, requests=1.0)
            ledger.settle(spent, half)
            sent = sent.plus(spent, -1.0).plus(half)
        elif action in ("exchange", "lost answer"):
            report = ledger.report()._replace(limit=LIMIT, needs=(), advance=amount)
            answer = desk.exchange(identity, report, now)
            if action == "exchange":
                ledger.apply(answer, now)
        elif action == "dies":
            desk.forget(identity)
            serial += 1
            ledgers[name] = f"{name}{serial}", LeasedLedger(without_waking, without_waking)
            reserved[name].clear()
        assert sent.within(LIMIT)
        assert desk.committed.within(LIMIT)


def test_the_lease_of_a_dead_worker_counts_as_spent_until_it_is_heard_of_again():
    desk = BudgetLeases()
    desk.exchange("a", SpendReport(LIMIT, Amount(), Amount(), needs=[Amount(requests=15)]), 0.0)
    need = [Amount(requests=10)]

    assert desk.exchange("b", SpendReport(LIMIT, Amount(), Amount(), needs=need), 1.0).decisions == ["wait"]
    assert desk.spent.requests == 0
    desk.forget("a")
    assert desk.exchange("b", SpendReport(LIMIT, Amount(), Amount(), needs=need), 2.0).decisions == ["no"]
    assert desk.spent.requests == 15
    desk.exchange("a", SpendReport(LIMIT, Amount(requests=3), Amount()), 3.0)
    assert desk.exchange("b", SpendReport(LIMIT, Amount(), Amount(), needs=need), 4.0).decisions == ["granted"]
    assert desk.spent.requests == 3


def test_a_worker_that_is_silent_counts_as_dead():
    desk = BudgetLeases()
    desk.exchange("a", SpendReport(LIMIT, Amount(), Amount(), needs=[Amount(requests=15)]), 0.0)
    report = SpendReport(LIMIT, Amount(), Amount(), needs=[Amount(requests=10)])

    assert desk.exchange("b", report, LEASE_S + 1).decisions == ["no"]


def test_a_worker_gives_back_what_it_holds_in_advance_when_another_one_waits():
    desk = BudgetLeases()
    ledger = LeasedLedger(without_waking, without_waking)
    ledger.apply(desk.exchange("a", SpendReport(LIMIT, Amount(), Amount(), advance=Amount(requests=10)), 0.0), 0.0)
    waiting = SpendReport(LIMIT, Amount(), Amount(), needs=[Amount(requests=20)])

    assert desk.exchange("b", waiting, 0.1).decisions == ["wait"]
    for now in (0.2, 0.3):
        ledger.apply(desk.exchange("a", ledger.report()._replace(limit=LIMIT), now), now)
    assert desk.exchange("b", waiting, 0.4).decisions == ["granted"]


# -- with the thread that exchanges --------------------------------------------------------------------------------


class Desk:
    """A desk that workers of this process call as those of a cluster do, but for the wire."""

    def __init__(self) -> None:
        self._desk, self._lock = LeaseDesk(), threading.Lock()
        self.is_cut = False

    def client(self, name: str) -> LeaseClient:
        def exchange(reports):
            if self.is_cut:
                raise ConnectionError("the link is cut")
            with self._lock:
                return self._desk.exchange(name, reports)

        return LeaseClient(exchange, lambda version: time.sleep(0.05) or version)


@contextlib.contextmanager
def open_ledgers(desk: Desk, count: int) -> Iterator[list[LeasedLedger]]:
    with contextlib.ExitStack() as stack:
        ledgers = []
        for number in range(count):
            client = desk.client(f"w{number}")
            ledger = LeasedLedger(client.wake, lambda client=client: client.remove("budget"))
            client.add("budget", ledger)
            stack.callback(ledger.close)
            ledgers.append(ledger)
        yield ledgers


async def send(ledger: LeasedLedger, budget: str, samples: int, log: list[str]) -> int:
    """Send samples as a worker does; return how many the budget did not allow."""
    account = Account((Budget.read(budget, ledger),))
    needed = Amount(0.0, 10.0, 1.0)

    async def one(number: int) -> bool:
        request = Request(input="?", sample=f"{id(ledger)}-{number}", repeat=0, arm="v2")
        try:
            await account.reserve(request, needed, needed)
        except Spent:
            return False
        log.append(request.sample)
        await asyncio.sleep(0.01)
        account.settle(needed, Amount(0.0, 5.0, 1.0))
        account.release(request.sample, 0, "v2")
        return True

    return samples - sum(await asyncio.gather(*(one(number) for number in range(samples))))


@pytest.mark.parametrize(("budget", "most"), [("50 requests", 50), ("500 tokens", 100)])
def test_workers_spend_a_budget_to_its_end_and_not_one_request_more(budget, most):
    log: list[str] = []

    async def send_all(ledgers: list[LeasedLedger]) -> list[int]:
        return await asyncio.gather(*(send(ledger, budget, 60, log) for ledger in ledgers))

    with open_ledgers(Desk(), 3) as ledgers:
        refused = asyncio.run(asyncio.wait_for(send_all(ledgers), 20))

    # Of tokens, the last sample may not fit: it needs 10, and 5 may be left.
    assert most - 1 <= len(log) <= most
    assert len(log) + sum(refused) == 180


def test_a_worker_that_was_cut_off_spends_its_lease_and_reports_later():
    desk, log = Desk(), []
    with open_ledgers(desk, 1) as [ledger]:

        async def cut_off() -> int:
            await send(ledger, "20 requests", 5, log)
            desk.is_cut = True
            waiting = asyncio.create_task(send(ledger, "20 requests", 30, log))
            await asyncio.sleep(0.5)
            at_most = len(log)
            desk.is_cut = False
            await asyncio.wait_for(waiting, 10)
            return at_most

        assert asyncio.run(cut_off()) < 20
    assert len(log) == 20
