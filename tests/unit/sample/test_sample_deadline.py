"""The deadline of a run."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from pytest_crucible.records import Outcome, Reply, Unit
from pytest_crucible.sample.engine import AllLost, Deadline, Progress, ask_before, run_units

SENTENCE = "the deadline of this run (30 min) has passed: continue with --crucible-resume"


def deadline(seconds: float) -> Deadline:
    return Deadline.after(seconds, "30 min")


async def answer(outcome: Outcome) -> Outcome:
    outcome.reply = Reply(text="4")
    return outcome


async def never(outcome: Outcome) -> Outcome:
    outcome.scores["half"] = True
    await asyncio.sleep(3600)
    raise AssertionError


@pytest.mark.parametrize("timeout_s", [None, deadline(3600)])
def test_units_run_before_the_deadline(timeout_s):
    outcome = asyncio.run(ask_before(timeout_s, Outcome(Unit(3, 0, 0, 0)), answer))

    assert outcome.reply == Reply(text="4")


def test_no_unit_runs_after_the_deadline():
    outcome = asyncio.run(ask_before(deadline(-1), Outcome(Unit(3, 0, 1, 2)), never))

    assert outcome == Outcome(Unit(3, 0, 1, 2), lost="deadline", detail=SENTENCE)


def test_a_unit_in_flight_is_cut_off():
    started = time.monotonic()
    outcome = asyncio.run(ask_before(deadline(0.02), Outcome(Unit(3, 0, 1, 2)), never))

    assert outcome == Outcome(Unit(3, 0, 1, 2), lost="deadline", detail=SENTENCE)
    assert time.monotonic() - started < 10


def test_a_cancellation_is_not_a_deadline():
    async def work() -> None:
        task = asyncio.create_task(ask_before(deadline(3600), Outcome(Unit(0, 0, 0, 0)), never))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


@pytest.mark.parametrize(("lost", "raises"), [("deadline", False), ("budget", False), ("error", True)])
def test_an_arm_that_was_cut_short_is_not_broken(lost, raises):
    progress = Progress(total=100)

    async def ask(unit: Unit) -> Outcome:
        return Outcome(unit, lost=lost, detail="gone")

    units = (Unit(position, 0, 0, 0) for position in range(100))
    work = run_units(units, ask, print, concurrency=8, arms=("v2",), planned=[100], progress=progress)
    with pytest.raises(AllLost) if raises else contextlib.nullcontext():
        asyncio.run(work)

    assert progress.is_cut_short is (lost != "error")
