"""The halves of the samples: groups stay whole, and each half is large enough."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.plan.look_order import look_order
from pytest_crucible.records.errors import SpecError
from pytest_crucible.sweeps.rounds import look_lengths, split_halves


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
