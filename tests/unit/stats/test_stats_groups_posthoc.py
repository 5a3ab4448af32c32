"""Pairs of independent arms: the studentized range, Tukey, Games and Howell, and Dunnett."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats.studentized_range import (
    average_over_scale,
    studentized_range_critical,
    studentized_range_tail,
)

few = settings(max_examples=choose_examples(25))


@pytest.mark.parametrize(("q", "arms", "dof"), [(3.5, 3, 24), (4.0, 4, 2), (6.0, 10, 30), (0.1, 3, 10), (2.0, 3, 1)])
def test_the_range_agrees_with_another_quadrature(q, arms, dof):
    from scipy.stats import studentized_range

    assert studentized_range_tail(q, arms, dof) == pytest.approx(float(studentized_range.sf(q, arms, dof)), rel=1e-9)


@pytest.mark.parametrize(
    ("arms", "dof", "tabled"), [(3, 10, 3.877), (5, 20, 4.232), (10, 60, 4.646), (3, math.inf, 3.314)]
)
def test_critical_ranges_are_those_of_the_tables(arms, dof, tabled):
    assert studentized_range_critical(0.05, arms, dof) == pytest.approx(tabled, abs=0.0006)


@given(st.floats(0.3, 3e5), st.floats(-3, 3))
def test_the_average_over_the_scale_has_the_moments_of_chi(dof, log_reach):
    reach = math.exp(log_reach)

    assert average_over_scale(np.ones_like, reach, dof) == pytest.approx(1, rel=1e-10)
    assert average_over_scale(np.square, reach, dof) == pytest.approx(1, rel=1e-10)


@given(st.floats(1e-9, 0.999), st.integers(2, 12), st.floats(1, 1e4))
@few
def test_the_critical_range_has_the_tail_that_it_promises(alpha, arms, dof):
    assert studentized_range_tail(studentized_range_critical(alpha, arms, dof), arms, dof) == pytest.approx(
        alpha, rel=1e-9
    )
