"""The sampling engine: every unit is sent once, concurrently and bounded, until the run ends or is stopped."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.plan.arms import interleave_units
from pytest_crucible.records import Outcome, Reply, Unit
from pytest_crucible.sample.engine import ALL_LOST_AFTER, YIELD_EVERY_S, AllLost, Progress, run_units


def outcome(unit: Unit, **fields) -> Outcome:
    return Outcome(unit, **fields)


def answer_unit(unit: Unit) -> Outcome:
    return outcome(unit, reply=Reply(text="4"))


def lost(unit: Unit) -> Outcome:
    return outcome(unit, lost="error", detail="connection refused\nand a traceback")


async def answer_async(unit: Unit) -> Outcome:
    return answer_unit(unit)


def units_of(count: int) -> Iterator[Unit]:
    return (Unit(position, 0, 0, 0) for position in range(count))


def work(units: Iterator[Unit], ask: Any, keep: Any, *, arms: tuple[str, ...] = ("v2",), **options: Any) -> Any:
    """Run units, by default one at a time of an arm of a hundred."""
    settings = {"concurrency": 1, "planned": [100], "progress": Progress(total=100), **options}
    return run_units(units, ask, keep, arms=arms, **settings)


@dataclass
class Experiment:
    """Runs units of some arms, and records which were sent, ended and open at one time."""

    answer: Callable[[Unit], Outcome] = answer_unit
    concurrency: int = 8
    arms: tuple[str, ...] = ("v2",)
    samples: int = 50
    takes_s: float = 0.0
    holds: int = 0
    """None is answered before so many are open at one time."""
    sent: list[Unit] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    cancelled: int = 0

    def units(self) -> Iterator[Unit]:
        return interleave_units(range(self.samples), [(0, arm, 0) for arm in range(len(self.arms))], seed=0)

    async def ask(self, unit: Unit) -> Outcome:
        self.sent.append(unit)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            async with asyncio.timeout(30):
                while self.most_open < self.holds:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(self.takes_s)
            return self.answer(unit)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    async def work(self, progress: Progress | None = None) -> None:
        await run_units(
            self.units(),
            self.ask,
            self.outcomes.append,
            concurrency=self.concurrency,
            arms=self.arms,
            planned=[self.samples] * len(self.arms),
            progress=progress or Progress(total=self.samples * len(self.arms)),
        )

    def run(self, progress: Progress | None = None) -> None:
        asyncio.run(self.work(progress))


@given(st.integers(0, 40), st.integers(1, 3), st.integers(1, 12))
@settings(deadline=None, max_examples=choose_examples(30))
def test_every_unit_is_sent_and_recorded_once(samples, arms, concurrency):
    experiment = Experiment(samples=samples, arms=("a", "b", "c")[:arms], concurrency=concurrency)

    experiment.run()

    assert Counter(experiment.sent) == Counter(experiment.units())
    assert Counter(entry.unit for entry in experiment.outcomes) == Counter(experiment.units())


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (7, 7), (50, 50), (64, 50)])
def test_concurrency_is_reached_and_not_exceeded(concurrency, most):
    experiment = Experiment(concurrency=concurrency, takes_s=0.05, holds=most)

    experiment.run()

    assert experiment.most_open == most


def test_first_workers_send_before_the_last_begin():
    """Else all answers come at one time, wave upon wave, and each waits for those before it to be dealt with."""
    done: list[str] = []

    async def ask(unit: Unit) -> Outcome:
        done.append("begin")
        for _ in range(4):  # what connecting takes
            await asyncio.sleep(0)
        done.append("asked")
        await asyncio.sleep(0.05)
        return answer_unit(unit)

    experiment = Experiment(samples=32, concurrency=32)
    experiment.ask = ask  # type: ignore[method-assign]
    experiment.run()

    assert done[:32].count("asked") > 10


def test_units_are_pulled_when_a_worker_is_free():
    pulled, open_units = 0, []

    def units() -> Iterator[Unit]:
        nonlocal pulled
        for position in range(100):
            pulled += 1
            yield Unit(position, 0, 0, 0)

    async def ask(unit: Unit) -> Outcome:
        open_units.append(pulled - len(outcomes))
        await asyncio.sleep(0)
        return answer_unit(unit)

    outcomes: list[Outcome] = []
    asyncio.run(work(units(), ask, outcomes.append, concurrency=4))

    assert max(open_units) == 4


def test_progress_counts_ended_and_lost_units():
    progress = Progress(total=50)
    Experiment(lambda unit: lost(unit) if unit[0] % 5 == 4 else answer_unit(unit)).run(progress)

    assert (progress.done, progress.lost) == (50, 10)
    assert progress.started <= progress.first_reply <= progress.last_reply


# -- an arm that answers nothing ----------------------------------------------------------------------------------


def test_an_arm_that_lost_its_first_twenty_samples_is_stopped():
    experiment = Experiment(lost, concurrency=1, samples=1000)

    with pytest.raises(AllLost) as caught:
        experiment.run()

    assert str(caught.value) == (
        "adapter 'v2' lost each of its first 20 samples (connection refused): the experiment was stopped"
    )
    assert len(experiment.sent) == ALL_LOST_AFTER


def test_a_small_arm_that_lost_all_samples_is_stopped():
    with pytest.raises(AllLost, match="lost each of its first 3 samples"):
        Experiment(lost, samples=3).run()


def test_an_arm_of_timeouts_is_stopped():
    with pytest.raises(AllLost, match=r"lost each of its first 20 samples \(timeout\)"):
        Experiment(lambda unit: outcome(unit, failure="timeout")).run()


def test_the_message_names_the_broken_arm():
    with pytest.raises(AllLost, match="adapter 'v1' lost"):
        Experiment(lambda unit: lost(unit) if unit.arm == 1 else answer_unit(unit), arms=("v2", "v1")).run()


def test_an_arm_with_stored_answers_is_not_stopped():
    """One sample is left of an arm whose other answers are stored, and it is lost."""
    outcomes: list[Outcome] = []

    async def ask(unit: Unit) -> Outcome:
        return lost(unit)

    def run(*before: bool) -> None:
        units = iter([Unit(0, 0, 1, 0)])
        asyncio.run(work(units, ask, outcomes.append, arms=("v2", "v1"), planned=[0, 1], answered=before))

    run(False, True)
    with pytest.raises(AllLost, match="adapter 'v1' lost each of its first 1 samples"):
        run(True, False)

    assert len(outcomes) == 2


@pytest.mark.parametrize(
    "first", [answer_unit, lambda unit: outcome(unit, failure="assertion"), lambda unit: outcome(unit, skipped=True)]
)
def test_an_arm_that_answered_once_is_not_stopped(first):
    experiment = Experiment(lambda unit: first(unit) if unit[0] == 0 else lost(unit), concurrency=1)

    experiment.run()

    assert len(experiment.outcomes) == 50


# -- being stopped ------------------------------------------------------------------------------------------------


class Stop(Exception):
    """Errors of a backend or a store that end a run."""


def raising(unit: Unit) -> Outcome:
    if unit[0] == 10:
        raise Stop("no such model")
    return answer_unit(unit)


def test_an_error_of_a_request_stops_the_run():
    experiment = Experiment(raising, concurrency=1)

    with pytest.raises(Stop, match="no such model"):
        experiment.run()

    assert len(experiment.outcomes) == 10


def test_an_error_of_the_store_stops_the_run():
    def keep(outcome: Outcome) -> None:
        raise Stop("disk full")

    with pytest.raises(Stop, match="disk full"):
        asyncio.run(work(units_of(10), answer_async, keep, concurrency=2))


def test_an_error_cancels_the_units_in_flight():
    ended = []

    async def ask(unit: Unit) -> Outcome:
        if unit[0] == 3:
            raise Stop
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(unit[0])
        return answer_unit(unit)

    with pytest.raises(Stop):
        asyncio.run(work(units_of(10), ask, ended.append, concurrency=4))

    assert sorted(ended) == [0, 1, 2]


def test_a_cancelled_run_keeps_the_outcomes_of_ended_units():
    async def interrupt() -> Experiment:
        experiment = Experiment(concurrency=4, samples=1000)
        running = asyncio.create_task(experiment.work())
        while len(experiment.outcomes) < 100:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return experiment

    experiment = asyncio.run(interrupt())

    assert 100 <= len(experiment.outcomes) < 120
    assert experiment.open == 0
    assert experiment.cancelled == 4


@pytest.mark.parametrize("concurrency", [1, 64])
def test_a_model_that_never_waits_can_be_interrupted(concurrency):
    """The loop hears of it soon, however many workers there are."""
    outcomes: list[Outcome] = []
    endless = (Unit(position, 0, 0, 0) for position in itertools.count())

    async def ask(unit: Unit) -> Outcome:
        if unit[0] == 10**6:
            raise AssertionError("not interrupted")
        return answer_unit(unit)

    before = time.perf_counter()

    async def interrupt() -> None:
        running = asyncio.create_task(work(endless, ask, outcomes.append, concurrency=concurrency, planned=[10**7]))
        asyncio.get_running_loop().call_later(3 * YIELD_EVERY_S, running.cancel)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupt())

    assert 0 < len(outcomes) < 10**6
    assert time.perf_counter() - before < 30


# -- a store that is slower than the model ------------------------------------------------------------------------


def test_no_unit_starts_while_the_store_is_behind():
    looks = iter([True, True, True])
    asked_at_looks = []
    experiment = Experiment(samples=5)

    def behind() -> bool:
        asked_at_looks.append(len(experiment.sent))
        return next(looks, False)

    asyncio.run(work(experiment.units(), experiment.ask, experiment.outcomes.append, planned=[5], behind=behind))

    assert asked_at_looks[:4] == [1, 1, 1, 1]
    assert len(experiment.outcomes) == 5
