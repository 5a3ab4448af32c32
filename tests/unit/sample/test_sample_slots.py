"""A sample that waits to be sent again lets another one run in its place."""

from __future__ import annotations

import asyncio

import pytest
import virtual_time

from pytest_crucible.backends.deadlines import released_slot
from pytest_crucible.records import Outcome, Reply, Unit
from pytest_crucible.sample.engine import MOST_OPEN, Progress, run_units


class Samples:
    """Samples of which the first `waiting` wait for a second; remembers how many were open and how many ran."""

    def __init__(self, waiting: int, requests: int = 1) -> None:
        self.waiting = waiting
        self.requests = requests
        self.running = self.most_running = self.open = self.most_open = 0
        self.ended: list[float] = []

    def run(self, change: int) -> None:
        self.running += change
        self.most_running = max(self.most_running, self.running)

    async def wait(self) -> None:
        async with released_slot():
            await asyncio.sleep(1)

    async def ask(self, unit: Unit) -> Outcome:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        if unit.position < self.waiting:
            await asyncio.gather(*(self.wait() for _ in range(self.requests)))
        self.run(1)
        await asyncio.sleep(0.1)
        self.run(-1)
        self.open -= 1
        self.ended.append(asyncio.get_running_loop().time())
        return Outcome(unit, reply=Reply(text="4"))


async def work(samples: Samples, many: int, concurrency: int) -> None:
    units = (Unit(position, 0, 0, 0) for position in range(many))
    progress = Progress(total=many)
    await run_units(
        units, samples.ask, lambda _: None, concurrency=concurrency, arms=("v2",), planned=[many], progress=progress
    )
    assert progress.done == many


@pytest.mark.parametrize("requests", [1, 3])
def test_samples_run_while_others_wait(requests):
    samples = Samples(waiting=8, requests=requests)

    virtual_time.run(work(samples, 48, 4))

    assert max(samples.ended) == pytest.approx(1.2)
    assert samples.most_running == 4


def test_waiting_samples_continue_first():
    samples = Samples(waiting=4)

    virtual_time.run(work(samples, 1_000, 4))

    assert sum(ended < 1.25 for ended in samples.ended) <= 4 * 12
    assert samples.most_running == 4


def test_open_samples_are_bounded():
    samples = Samples(waiting=100)

    virtual_time.run(work(samples, 100, 4))

    assert samples.most_open == MOST_OPEN * 4


def test_a_wait_that_is_cancelled_ends_with_its_sample():
    samples = Samples(waiting=4)

    async def cancel() -> None:
        task = asyncio.create_task(work(samples, 100, 4))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(cancel())


def test_a_request_that_outlives_its_sample_keeps_no_slot():
    samples = Samples(waiting=0)

    async def leaving(unit: Unit) -> Outcome:
        left.append(asyncio.create_task(samples.wait()))
        await asyncio.sleep(0.01)
        return await Samples.ask(samples, unit)

    async def all_work() -> None:
        units = (Unit(position, 0, 0, 0) for position in range(60))
        await run_units(
            units, leaving, lambda _: None, concurrency=2, arms=("v2",), planned=[60], progress=Progress(total=60)
        )
        await asyncio.gather(*left)

    left: list[asyncio.Task[None]] = []
    virtual_time.run(all_work())

    assert len(samples.ended) == 60
    assert samples.most_running <= MOST_OPEN * 2
