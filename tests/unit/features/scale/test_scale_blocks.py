"""Blocks: every unit is dealt, and its first result stays, whichever workers are lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.scale.blocks import BLOCK_SAMPLES, BlockQueue
from pytest_crucible.records import Unit


def open_queue(units, *, choose_among=6, seed="0", first=1):
    return BlockQueue(iter(units), round=0, first=first, choose_among=choose_among, seed=seed)


def units_of(samples, arms=2):
    return [Unit(position, 0, arm, 0) for position in range(samples) for arm in range(arms)]


@given(
    samples=st.integers(0, 700),
    arms=st.integers(1, 3),
    choose_among=st.integers(1, 9),
    fates=st.lists(st.sampled_from(["stored", "lost", "late"]), max_size=60),
)
def test_every_unit_is_stored_once_whichever_workers_are_lost(samples, arms, choose_among, fates):
    queue, stored, fates, late = open_queue(units_of(samples, arms), choose_among=choose_among), [], iter(fates), []

    def store(block):
        if queue.store(block):
            stored.extend(block.units)

    while (block := queue.pop()) is not None:
        fate = next(fates, "stored")
        if fate != "stored":
            queue.put_back(block)
        if fate == "late":
            late.append(block)
        if fate == "stored":
            store(block)
        for other in late[:1]:
            store(late.pop(late.index(other)))

    assert queue.is_done
    assert sorted(stored) == units_of(samples, arms)


def test_a_late_result_of_a_block_that_was_dealt_again_is_not_the_first():
    queue = open_queue(units_of(10))
    block = queue.pop()
    queue.put_back(block)
    again = queue.pop()

    assert again is block
    assert [queue.store(again), queue.store(block)] == [True, False]
    assert queue.pop() is None
    assert queue.is_done


def test_a_block_has_all_units_of_64_samples():
    queue = open_queue(units_of(150), choose_among=1)

    blocks = [queue.pop() for _ in range(3)]

    assert [len(block.positions) for block in blocks] == [BLOCK_SAMPLES, BLOCK_SAMPLES, 22]
    assert [len(block.units) for block in blocks] == [128, 128, 44]
    assert queue.pop() is None
    assert not queue.is_done


def test_blocks_of_lost_workers_come_first():
    queue = open_queue(units_of(300), choose_among=1)
    lost = queue.pop()
    queue.pop()

    queue.put_back(lost)

    assert queue.pop() is lost
    assert lost.dealt == 2


def test_the_seed_draws_the_order_of_blocks():
    def order(seed):
        queue = open_queue(units_of(640), seed=seed)
        return [queue.pop().number for _ in range(10)]

    assert order("1") == order("1")
    assert order("1") != order("2")
    assert sorted(order("1")) == list(range(1, 11))


def test_a_unit_that_is_added_by_a_result_is_dealt():
    def units():
        yield Unit(0, 0, 0, 0)
        yield from waiting

    waiting = [Unit(0, 0, 1, 0)]
    queue = open_queue(units())

    assert queue.pop().units == [Unit(0, 0, 0, 0), Unit(0, 0, 1, 0)]


@pytest.mark.parametrize("first", [1, 8])
def test_numbers_go_on_over_rounds(first):
    queue = open_queue(units_of(100), choose_among=1, first=first)

    assert [queue.pop().number, queue.pop().number] == [first, first + 1]
    assert queue.last_number == first + 1


def test_no_block_is_dealt_far_ahead_of_the_first_that_is_not_stored():
    """A run that looks at its first samples would else send all others while a slow worker has them."""
    units = iter([Unit(position, 0, 0, 0) for position in range(100)])
    blocks = BlockQueue(units, round=0, first=1, choose_among=1, seed="", samples=10, most_ahead=3)
    first, *others = [blocks.pop() for _ in range(3)]
    for block in others:
        blocks.store(block)

    assert blocks.pop() is None
    blocks.store(first)
    assert blocks.pop().number == 4
