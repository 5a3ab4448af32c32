"""The queue before the model: order, sharing, failing alone."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pytest_crucible.local_model.server.futures import MAX_ROWS, Group, Worker
from pytest_crucible.local_model.server.transport import Refusal


class Notes:
    """A computation that writes down what it was given together."""

    def __init__(self) -> None:
        self.batches: list[list[object]] = []
        self.gate = threading.Event()

    def group(self, key: str) -> Group[object, object]:
        return Group(key, self.compute)

    def compute(self, items):
        self.batches.append(list(items))
        if "bad" in items:
            raise ValueError("bad item")
        return [f"{item}!" for item in items]

    def wait(self) -> str:
        self.gate.wait(60)
        return "waited"


def run(story):
    """Run a story with a fresh queue whose first task waits for `notes.gate`."""

    async def tell():
        work, notes = Worker(), Notes()
        try:
            first = work.call(notes.wait)
            return await asyncio.wait_for(story(work, notes, first), 60)
        finally:
            notes.gate.set()
            work.stop()
            work.join()

    return asyncio.run(tell())


def test_a_call_returns_the_result_of_the_function():
    async def story(work, notes, first):
        notes.gate.set()
        return await first

    assert run(story) == "waited"


def test_waiting_tasks_of_a_group_are_computed_together_wherever_they_stand():
    async def story(work, notes, first):
        results = [work.share(notes.group(key), key + str(number)) for number in range(3) for key in "ab"]
        notes.gate.set()
        return await asyncio.gather(*results), notes.batches

    results, batches = run(story)

    assert results == ["a0!", "b0!", "a1!", "b1!", "a2!", "b2!"]
    assert batches == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


def test_calls_keep_their_order():
    async def story(work, notes, first):
        done: list[int] = []
        calls = [work.call(lambda number=number: done.append(number)) for number in range(20)]
        notes.gate.set()
        await asyncio.gather(*calls)
        return done

    assert run(story) == list(range(20))


def test_a_batch_has_its_limit_of_rows_and_one_task_may_exceed_it():
    async def story(work, notes, first):
        sizes = {"large": MAX_ROWS * 2, "half": MAX_ROWS // 2, "other half": MAX_ROWS // 2, "one": 1}
        results = [work.share(notes.group("a"), name, rows=rows) for name, rows in sizes.items()]
        notes.gate.set()
        await asyncio.gather(*results)
        return notes.batches

    assert run(story) == [["large"], ["half", "other half"], ["one"]]


def test_a_failing_task_does_not_fail_the_others():
    async def story(work, notes, first):
        results = [work.share(notes.group("a"), name) for name in ("good", "bad", "fine")]
        notes.gate.set()
        return await asyncio.gather(*results, return_exceptions=True)

    good, bad, fine = run(story)

    assert (good, fine) == ("good!", "fine!")
    assert isinstance(bad, ValueError)


def test_a_cancelled_task_is_not_computed():
    async def story(work, notes, first):
        results = [work.share(notes.group("a"), name) for name in ("one", "two")]
        results[0].cancel()
        notes.gate.set()
        await results[1]
        return notes.batches

    assert run(story) == [["two"]]


def test_all_is_computed_in_one_thread_that_is_not_the_loops():
    async def story(work, notes, first):
        notes.gate.set()
        return await asyncio.gather(*(work.call(threading.get_ident) for _ in range(5)))

    identities = run(story)

    assert len(set(identities)) == 1
    assert identities[0] != threading.get_ident()


def test_after_the_stop_nothing_is_begun():
    async def story(work, notes, first):
        late = work.share(notes.group("a"), "late")
        notes.gate.set()
        work.stop()
        await asyncio.sleep(0.05)

        assert not late.done()
        return notes.batches

    assert run(story) == []


def test_an_exception_of_a_call_is_the_callers():
    async def story(work, notes, first):
        notes.gate.set()
        with pytest.raises(ZeroDivisionError):
            await work.call(lambda: 1 // 0)

    run(story)


def test_a_task_after_the_stop_fails():
    async def story(work, notes, first):
        work.stop()
        with pytest.raises(Refusal, match="the server was stopped"):
            await work.call(notes.wait)

    run(story)
