"""The difference of two arms whose values are clustered in two ways."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_arms
from pytest_crucible.stats.means.two_way import two_way_arms

BLOCKS = np.repeat(np.arange(8), 5)
VALUES = np.random.default_rng(3).normal(size=40) + np.repeat(np.random.default_rng(4).normal(size=8) * 3, 5)
OWN = BLOCKS < 3
ALONE = np.arange(40)


def compare(values, own, blocks, groups):
    sides = (own, ~own)
    return two_way_arms(values[own], values[~own], *((blocks[side], groups[side]) for side in sides))


def test_of_single_samples_in_equal_blocks_it_is_students_t_of_the_blocks_means():
    means = VALUES.reshape(8, 5).mean(axis=1)

    test, students = compare(VALUES, OWN, BLOCKS, ALONE), scipy_stats.ttest_ind(means[:3], means[3:])

    assert (test.statistic, test.p_value) == pytest.approx((students.statistic, students.pvalue))
    assert test.dof == (6,)
    assert test.estimate == pytest.approx(means[:3].mean() - means[3:].mean())


def test_what_groups_share_cancels_where_each_block_has_every_group():
    groups, blocks = np.arange(40) % 4, np.repeat(np.arange(10), 4)
    values = groups * 5.0 + np.random.default_rng(5).normal(size=40)
    own = np.isin(blocks, (0, 1, 2, 5))

    balanced = compare(values, own, blocks, groups)

    assert balanced.se < 1 < values.std()
    assert balanced.dof[0] <= 8


def test_it_is_never_narrower_than_by_groups_alone():
    draw = np.random.default_rng(6)
    for _ in range(20):
        groups = draw.integers(0, 9, size=40)
        values = groups + draw.normal(size=40)
        by_groups = clustered_arms(values[OWN], values[~OWN], groups[OWN].tolist(), groups[~OWN].tolist())

        assert compare(values, OWN, BLOCKS, groups).se >= by_groups.se * (1 - 1e-12)


def test_constant_arms_have_the_exact_p_value_over_assignments_of_blocks():
    test = compare(np.where(OWN, 0.0, 1.0), OWN, BLOCKS, ALONE)

    assert (test.estimate, test.status, test.interval) == (-1.0, "degenerate", None)
    assert test.p_value == pytest.approx(1 / 56)
    assert compare(np.ones(40), OWN, BLOCKS, ALONE).p_value == 1.0


def test_few_groups_leave_few_degrees_of_freedom():
    many, few = (compare(VALUES, OWN, BLOCKS, groups) for groups in (ALONE, ALONE % 3))

    assert many.dof == (6,)
    assert few.dof[0] <= 3


@pytest.mark.parametrize(
    ("own", "blocks", "error"),
    [
        (BLOCKS == 0, BLOCKS, NotEnoughData),
        (BLOCKS != 0, BLOCKS, NotEnoughData),
        (ALONE < 17, BLOCKS, ValueError),
    ],
)
def test_one_block_in_an_arm_and_a_block_in_both_arms_are_refused(own, blocks, error):
    with pytest.raises(error):
        compare(VALUES, own, blocks, ALONE)
