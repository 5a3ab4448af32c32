"""Claims about an arm that the same samples chose: alpha divided by the arms."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.stats import bound_chosen_arm, clopper_pearson_bound, compare, compare_chosen_arm

RNG = np.random.default_rng(4)
RIGHT, WRONG = (RNG.random((2, 80)) < [[0.8], [0.6]]).astype(float)


def test_a_bound_of_one_of_eight_arms_is_exact_at_an_eighth_of_alpha():
    bound = bound_chosen_arm(RIGHT, arms=8, alpha=0.04)

    assert bound.value == clopper_pearson_bound(int(RIGHT.sum()), 80, alpha=0.005, side="lower")
    assert bound_chosen_arm(RIGHT, arms=8, side="upper").value > RIGHT.mean()


def test_a_comparison_has_the_p_value_of_one_times_the_arms_and_agrees_with_its_interval():
    alone, chosen = compare(RIGHT, WRONG), compare_chosen_arm(RIGHT, WRONG, arms=8)

    assert chosen.p_value == pytest.approx(8 * alone.p_value)
    assert chosen.p_exact == pytest.approx(8 * alone.p_exact)
    assert chosen.interval.level == pytest.approx(1 - 0.05 / 8)
    for arms in (1, 2, 8, 32, 1000):
        result = compare_chosen_arm(RIGHT, WRONG, arms=arms)
        assert (result.p_value < 0.05) == (result.interval.low > 0)


def test_one_arm_was_not_chosen():
    assert compare_chosen_arm(RIGHT, WRONG, arms=1).p_value == compare(RIGHT, WRONG).p_value
    with pytest.raises(ValueError, match="chosen among 0"):
        bound_chosen_arm(RIGHT, arms=0)
