"""Division of a limit among workers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.scale.limit_leases import divide, divide_whole

WANTS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.one_of(st.floats(0, 1000), st.just(math.inf)), min_size=1, max_size=8
)
LIMITS = st.floats(0.01, 10_000)


@given(limit=LIMITS, wants=WANTS)
def test_the_parts_of_a_limit_add_up_to_it(limit, wants):
    assert math.fsum(divide(limit, wants).values()) == pytest.approx(limit)


@given(limit=LIMITS, wants=WANTS)
def test_no_worker_gets_less_than_it_wants_while_another_gets_more_than_it(limit, wants):
    parts = divide(limit, wants)
    short = [worker for worker in wants if parts[worker] < wants[worker] * (1 - 1e-9)]

    assert all(parts[worker] >= max(parts.values()) * (1 - 1e-9) for worker in short)


@given(limit=st.integers(0, 300), wants=WANTS, turn=st.integers(0, 50))
def test_whole_parts_add_up_to_the_limit(limit, wants, turn):
    parts = divide_whole(limit, wants, turn)

    assert sum(parts.values()) == limit
    assert all(part == int(part) >= 0 for part in parts.values())


@given(limit=st.integers(1, 7), workers=st.integers(8, 12))
def test_each_of_many_workers_has_its_turn(limit, workers):
    wants = {f"w{number:02}": math.inf for number in range(workers)}
    turns = [divide_whole(limit, wants, turn) for turn in range(workers)]

    assert all(sum(turn[worker] for turn in turns) == limit for worker in wants)


def test_a_worker_without_requests_takes_no_place_from_one_that_waits():
    for turn in range(4):
        assert divide_whole(1, {"idle": 0.0, "busy": math.inf}, turn) == {"idle": 0, "busy": 1}


def test_without_a_limit_all_parts_are_infinite():
    assert divide(math.inf, {"a": 1.0, "b": 0.0}) == {"a": math.inf, "b": math.inf}
