"""Which members go on, and which wins."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.sweeps.rounds import choose_winner, members_that_go_on

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
