"""The rounds of a sweep: halves of the samples, and members that are dropped at looks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.sweeps.rounds import choose_winner, look_lengths, members_that_go_on, split_halves
from pytest_crucible.plan.arms import look_order
from pytest_crucible.records.errors import SpecError


@given(st.integers(60, 200), st.integers(1, 4), st.sampled_from([0.4, 0.5, 0.6]))
def test_halves_divide_the_samples_and_no_group(n, size, confirm):
    groups = [f"g{k // size}" for k in range(n)]
    order = look_order([f"s{k}" for k in range(n)], groups)
    halves = split_halves(order, groups, confirm)

    assert sorted((*halves.choosing, *halves.confirming)) == list(range(n))
    assert not {groups[k] for k in halves.choosing} & {groups[k] for k in halves.confirming}
    assert abs(len(halves.confirming) - confirm * n) <= size


def test_without_a_confirming_half_all_samples_choose():
    halves = split_halves([2, 0, 1], [None] * 3, 0)

    assert halves.choosing == halves.confirming == (0, 1, 2)


@pytest.mark.parametrize(
    ("n", "groups", "confirm", "advice"),
    [
        (12, None, 0.5, "add samples or set confirm = 0"),
        (39, None, 0.5, "add samples or set confirm = 0"),
        (60, None, 0.9, "set confirm = 0.66, or add samples"),
        (400, None, 0.99, "set confirm = 0.95, or add samples"),
        (400, None, 0.01, "set confirm = 0.05, or add samples"),
        (80, 8, 0.5, "add samples or set confirm = 0"),
    ],
)
def test_halves_that_are_too_small(n, groups, confirm, advice):
    names = [None if groups is None else f"g{k % groups}" for k in range(n)]
    order = look_order([f"s{k}" for k in range(n)], names)
    with pytest.raises(SpecError) as caught:
        split_halves(order, names, confirm)

    assert str(caught.value) == (
        f"{n} samples are too few for confirm = {confirm}, which needs 20 (and 5 groups) in each half: {advice}"
    )


@pytest.mark.parametrize("n", [40, 41, 45, 60, 399, 400])
@pytest.mark.parametrize("confirm", [0.001, 0.999])
def test_the_advised_share_is_large_enough(n, confirm):
    order, groups = range(n), [None] * n
    with pytest.raises(SpecError) as caught:
        split_halves(order, groups, confirm)

    (share,) = re.findall(r"set confirm = (0\.\d+)", str(caught.value))
    halves = split_halves(order, groups, float(share))
    assert min(len(halves.choosing), len(halves.confirming)) >= 20


def test_looks_are_at_the_ends_of_groups():
    groups = ["a"] * 5 + ["b"] * 5 + ["c"] * 10

    assert look_lengths(range(20), groups, (1 / 8, 1 / 4, 1 / 2)) == (5, 10)
    assert look_lengths(range(20), [None] * 20, (1 / 8, 1 / 4, 1 / 2)) == (2, 5, 10)


RNG = np.random.default_rng(0)
CLEAR = RNG.normal([0.5, 0.9, 0.0, 0.2], 0.1, (60, 4))
CLEAR[:, 2] = CLEAR[::-1, 1]  # an equal mean


def go_on(values, drop="proven", clusters=None):
    return members_that_go_on(values, clusters, drop=drop, looks=3)


def test_members_that_another_is_proven_better_than_go():
    assert go_on(CLEAR) == [1, 2]
    assert go_on(CLEAR, "none") == [0, 1, 2, 3]
    assert go_on(CLEAR, "half") == [1, 2]
    assert go_on(CLEAR[:, :3], "half") == [1, 2]


@pytest.mark.parametrize("drop", ["proven", "half", "none"])
def test_samples_that_some_member_lost_are_left_out(drop):
    lost = CLEAR.copy()
    lost[::2, 3] = np.nan
    # What the others had there would decide otherwise.
    lost[::2, :3] = [9.0, 0.0, 0.0]

    assert go_on(lost, drop) == go_on(CLEAR[1::2], drop)


def test_members_without_a_common_sample_or_with_too_few_groups_go_on():
    nothing = np.full((10, 3), np.nan)
    groups = np.repeat(np.arange(4), 15)

    assert go_on(nothing) == [0, 1, 2]
    assert go_on(CLEAR, clusters=groups) == [0, 1, 2, 3]
    assert go_on(CLEAR[:, :1]) == [0]


def test_groups_count_as_one_value():
    # Ten samples of each of six groups agree, so that there are six values and not sixty.
    values = np.repeat(RNG.normal([0.5, 0.7], 0.2, (6, 2)), 10, axis=0)

    assert go_on(values) == [1]
    assert go_on(values, clusters=np.repeat(np.arange(6), 10)) == [0, 1]


def test_the_first_of_equal_means_wins():
    values = np.array([[0.1, 0.2, 0.3], [0.3, 0.4, 0.1], [0.2, 0.0, 0.2]])

    assert choose_winner(values) == 0
    assert choose_winner(values[:, ::-1]) == 0
    assert choose_winner(np.full((2, 2), np.nan)) is None
