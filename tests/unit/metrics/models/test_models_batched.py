"""Questions of many samples are computed together, each once, and an error reaches whoever asked."""

from __future__ import annotations

import asyncio

import pytest

from pytest_crucible.metrics.models.batched import Batched


class Doubling:
    """Doubles numbers, and notes what it was given at a time; -1 breaks it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def __call__(self, numbers):
        self.batches.append(list(numbers))
        if -1 in numbers:
            raise ValueError("no number")
        return [2 * number for number in numbers]


def test_what_many_ask_at_a_time_is_computed_together_and_once():
    model = Doubling()
    ask = Batched(model, batch_size=100)

    async def several():
        return await asyncio.gather(*(ask([k, k + 1]) for k in range(10)))

    assert asyncio.run(several()) == [[2 * k, 2 * k + 2] for k in range(10)]
    assert sorted(number for batch in model.batches for number in batch) == list(range(11))
    assert len(model.batches) == 1


def test_no_batch_is_larger_than_it_may_be():
    model = Doubling()

    assert asyncio.run(Batched(model, batch_size=4)(range(10))) == [2 * k for k in range(10)]
    assert [len(batch) for batch in model.batches] == [4, 4, 2]


def test_an_answer_is_remembered_also_by_another_loop():
    model = Doubling()
    ask = Batched(model, batch_size=4)

    assert [asyncio.run(ask([1, 1, 2])), asyncio.run(ask([2, 1]))] == [[2, 2, 4], [4, 2]]
    assert model.batches == [[1, 2]]


def test_an_error_reaches_whoever_asked_and_no_one_later():
    ask = Batched(Doubling(), batch_size=4)

    with pytest.raises(ValueError, match="no number"):
        asyncio.run(ask([-1, 1]))
    assert asyncio.run(ask([1])) == [2]


def test_one_who_waits_no_longer_takes_nothing_from_the_others():
    async def one_leaves():
        ask = Batched(Doubling(), batch_size=4)
        leaving, staying = asyncio.create_task(ask([7])), asyncio.create_task(ask([7]))
        await asyncio.sleep(0)
        leaving.cancel()
        return await staying

    assert asyncio.run(one_leaves()) == [14]
