"""Means over crossed random factors: sources of variation, intervals that count them, lost scores, trainings of each arm."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_crucible.stats import (
    Source,
    clustered_mean,
    crossed_bounds,
    crossed_difference,
    crossed_interval,
    crossed_mean,
    crossed_p_value,
    crossed_proof_p,
    gaffke_bound,
    mean_interval,
    one_sample_t,
)
from pytest_crucible.stats.factors.sources import fewest_levels, half_width, level_source, p_value
from pytest_crucible.stats.interval import NotEnoughData

BRENNAN_1 = np.array(
    [
        [1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 0],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    ]
)
BRENNAN_3 = np.array(
    [
        [[2, 4, 5, 5, 4, 4, 2, 3, 0, 6], [2, 6, 5, 5, 4, 6, 2, 6, 5, 6]],
        [[6, 5, 5, 9, 3, 4, 6, 4, 5, 8], [5, 7, 4, 7, 5, 4, 7, 6, 5, 8]],
        [[7, 6, 4, 8, 5, 4, 6, 4, 4, 7], [5, 5, 5, 7, 6, 7, 7, 6, 5, 8]],
        [[5, 7, 6, 6, 6, 7, 5, 5, 5, 6], [5, 7, 5, 6, 4, 8, 5, 4, 3, 6]],
    ]
).transpose(2, 0, 1)
"""10 persons x 4 items x 2 occasions."""
RNG = np.random.default_rng(16)

scores = arrays.arrays(
    np.float64,
    st.tuples(st.integers(3, 8), st.integers(2, 5), st.integers(2, 4)),
    elements=st.integers(0, 8).map(lambda value: value / 8),
)


@st.composite
def sources(draw: st.DrawFn) -> list[Source]:
    sizes = st.floats(1e-6, 1.0)
    samples = Source(name="samples", levels=50, dof=draw(st.integers(4, 1000)), variance=draw(sizes))
    factors = [
        Source(name=str(k), levels=levels, dof=levels - 1, variance=draw(sizes), floor=draw(st.floats(0, 0.3)) * size)
        for k, (levels, size) in enumerate(draw(st.lists(st.tuples(st.integers(2, 20), sizes), max_size=3)))
    ]
    return [samples, *factors]


# -- the sources ----------------------------------------------------------------------------------------------------


def test_brennan_2001_set_1_has_its_published_mean_squares():
    """Brennan (2001), synthetic data set 1, p x i: mean squares .8157, .8811 and .1269."""
    persons, items = crossed_mean(BRENNAN_1, ["items"]).sources

    assert [round(part * 120, 4) for part in (persons.variance, items.variance, items.floor)] == [
        0.8157,
        0.8811,
        0.1269,
    ]


def test_brennan_2001_set_3_has_its_published_mean_squares():
    """Brennan (2001), table 3.1, p x i x o: 6.9111, 12.4833, 3.2000, with 2.0852 and 12.05 / 9 for pi and po."""
    persons, items, occasions = crossed_mean(BRENNAN_3, ["items", "occasions"]).sources

    variances = [round(part.variance * 80, 4) for part in (persons, items, occasions)]
    assert variances == [6.9111, 12.4833, 3.2]
    assert [round(part.floor * 80, 4) for part in (items, occasions)] == [2.0852, 1.3389]


@given(scores, st.randoms())
def test_sources_do_not_depend_on_the_order_of_samples_and_levels(cells, random):
    order = [random.sample(range(size), size) for size in cells.shape]
    shuffled = cells[np.ix_(*order)]

    for single, other in zip(crossed_mean(cells, "pr").sources, crossed_mean(shuffled, "pr").sources, strict=True):
        assert math.isclose(single.variance, other.variance, rel_tol=1e-9, abs_tol=1e-15)
        assert math.isclose(single.floor, other.floor, rel_tol=1e-9, abs_tol=1e-15)


def test_a_level_without_scores_does_not_count():
    table = RNG.random((20, 4))
    lost = table.copy()
    lost[:, 2] = np.nan

    assert level_source(lost, "prompts") == level_source(table[:, [0, 1, 3]], "prompts")


def test_lost_scores_of_hard_samples_do_not_make_a_level_look_better():
    ease = np.linspace(0, 1, 40)[:, None]
    table = np.repeat(ease, 3, axis=1) + RNG.normal(0, 0.001, (40, 3))
    table[:20, 0] = np.nan

    assert level_source(table, "prompts").variance < 1e-6


def test_few_scores_of_a_level_weigh_as_fewer_levels():
    table = np.tile([0.0, 0.3, 0.6], (60, 1)) + RNG.normal(0, 0.01, (60, 3))
    whole = level_source(table, "prompts")
    table[5:, 2] = np.nan

    assert level_source(table, "prompts").variance > 1.4 * whole.variance * 0.95


def test_a_source_that_suits_groups_has_a_larger_floor_by_group():
    groups = np.repeat(np.arange(10), 6)
    table = RNG.normal(0, 0.3, (10, 4))[groups] + RNG.normal(0, 0.05, (60, 4))

    assert level_source(table, "prompts", groups).floor > 3 * level_source(table, "prompts").floor


# -- Banerjee's interval --------------------------------------------------------------------------------------------


@given(sources(), st.floats(0.001, 0.4))
def test_p_value_and_half_width_are_one_procedure(parts, alpha):
    assert math.isclose(p_value(parts, half_width(parts, alpha)), alpha, rel_tol=1e-6)


# -- means ----------------------------------------------------------------------------------------------------------


def test_without_random_factors_it_is_students_t():
    cells = RNG.random((25, 4))
    mean = crossed_mean(cells, ["rounds"], fixed=["rounds"])
    ordinary = mean_interval(cells.mean(axis=1))

    interval = crossed_interval(mean)

    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((ordinary.low, ordinary.high))
    assert crossed_p_value(mean) == pytest.approx(one_sample_t(cells.mean(axis=1)).p_value)


def test_clusters_count_as_in_the_clustered_mean():
    cells, groups = RNG.random((30, 3)), np.repeat(np.arange(10), 3)
    mean, robust = crossed_mean(cells, ["rounds"], groups), clustered_mean(cells.mean(axis=1), groups)

    assert (mean.estimate, mean.sources[0].dof) == (pytest.approx(robust.estimate), robust.dof)
    assert mean.sources[0].variance == pytest.approx(robust.se**2)


def test_bounds_without_factors_are_gaffkes():
    cells = RNG.random((25, 4))
    mean = crossed_mean(cells, ["rounds"], fixed=["rounds"])

    bounds = crossed_bounds(mean, alpha=0.05, bounds=(0.0, 1.0))

    means = cells.mean(axis=1)
    for value, side, end in ((bounds.low, "lower", 0.0), (bounds.high, "upper", 1.0)):
        assert value == pytest.approx(gaffke_bound(means, end=end, alpha=0.05, side=side))


def test_bounds_add_the_squared_distances_of_samples_and_levels():
    cells = np.random.default_rng(3).random((25, 12))
    mean = crossed_mean(cells, ["prompts"])

    bounds = crossed_bounds(mean, alpha=0.05, bounds=(0.0, 1.0))

    for value, side, end in ((bounds.low, "lower", 0.0), (bounds.high, "upper", 1.0)):
        own = [gaffke_bound(cells.mean(axis=axis), end=end, alpha=0.05, side=side) for axis in (0, 1)]
        assert abs(value - mean.estimate) == pytest.approx(math.hypot(*(mean.estimate - single for single in own)))
    assert bounds.method == "gaffke over levels"


@pytest.mark.parametrize(("levels", "proves"), [(3, False), (4, False), (5, True)])
def test_three_levels_prove_no_improvement_however_large(levels, proves):
    mean = crossed_difference(np.ones((10_000, levels)), np.zeros((10_000, levels)), ["prompts"])

    assert (crossed_bounds(mean, alpha=0.05, bounds=(-1.0, 1.0)).low > 0) == proves
    # A p-value counts both sides: 6 levels show at 5 % what 5 show on one side.
    assert (crossed_proof_p(mean, bounds=(-1.0, 1.0)) <= 0.1) == proves
    assert fewest_levels(1.0, 0.0, -1.0, 0.05) == 5


@settings(max_examples=30, deadline=None)
@given(scores, st.sampled_from([0.02, 0.1, 0.3]))
def test_the_p_value_of_a_proof_agrees_with_the_bounds(cells, alpha):
    mean = crossed_mean(cells - 0.5, "pr")
    p = crossed_proof_p(mean, bounds=(-0.5, 0.5))
    assume(abs(p / alpha - 1) > 0.01)
    bounds = crossed_bounds(mean, alpha=alpha / 2, bounds=(-0.5, 0.5))

    assert (p < alpha) == (not bounds.low <= 0 <= bounds.high)


def test_trainings_of_an_arm_have_the_range_of_a_score():
    """Two recipes whose trainings are all alike: each arm may miss one that is far worse, or far better."""
    arms = np.full((5000, 9), 0.8), np.full((5000, 12), 0.3)
    names = ("trainings of the candidate", "trainings of v1")
    mean = crossed_difference(*arms, [], trainings=names, ends=(0.0, 1.0))
    low = crossed_bounds(mean, alpha=0.05, bounds=(-1.0, 1.0)).low
    ours, theirs = 0.8 * (1 - 0.05 ** (1 / 9)), 0.7 * (1 - 0.05 ** (1 / 12))

    assert low == pytest.approx(0.5 - math.hypot(ours, theirs), abs=2e-3)


@given(scores)
def test_interval_and_p_value_agree_where_values_have_no_bounds(cells):
    mean = crossed_mean(cells - 0.5, "pr")
    assume(any(source.variance for source in mean.sources))
    interval, p = crossed_interval(mean), crossed_p_value(mean)

    assert interval is not None
    # At the limit itself either answer is a rounding error.
    assume(abs(p - 0.05) > 1e-9)
    assert (p <= 0.05) == (not interval.low <= 0 <= interval.high)


def test_equal_differences_are_judged_by_their_number():
    few, many = (crossed_mean(np.full((n, 3), 0.5), ["prompts"]) for n in (4, 40))

    assert crossed_p_value(few, bounds=(-1, 1)) > 0.05 > crossed_p_value(many, bounds=(-1, 1))
    # Three prompts that are alike bound nothing but these.
    assert crossed_interval(many, bounds=(-1, 1)).low < 0
    assert crossed_interval(many) is None
    assert crossed_bounds(many, alpha=0.05).low is None


def test_errors_name_what_was_given():
    with pytest.raises(ValueError, match="2 axes for samples and 2 factors"):
        crossed_mean([[1.0, 2.0]], ["prompts", "rounds"])
    with pytest.raises(ValueError, match="1 of 4 scores are infinite"):
        crossed_mean([[1.0, 2.0], [math.inf, 0.0]], ["prompts"])
    with pytest.raises(NotEnoughData, match="1 sample"):
        crossed_mean([[1.0, 2.0], [math.nan, math.nan]], ["prompts"])


# -- differences ----------------------------------------------------------------------------------------------------


def test_scores_computed_in_another_order_do_not_differ():
    single = np.full((30, 3), 0.1 + 0.2)

    assert crossed_difference(single, np.full((30, 3), 0.3), ["prompts"]).estimate == 0.0


def test_what_both_arms_share_cancels():
    prompts = RNG.normal(0, 1.0, (1, 5))
    candidate, baseline = RNG.random((40, 5)) + prompts, RNG.random((40, 5)) + prompts

    alone = crossed_mean(candidate, ["prompts"]).sources[1]
    paired = crossed_difference(candidate, baseline, ["prompts"]).sources[1]

    assert paired.variance < alone.variance / 10


def test_a_cell_that_one_arm_lost_is_left_out():
    candidate, baseline = RNG.random((20, 3)), RNG.random((20, 3))
    candidate[4, 1] = baseline[7] = math.nan

    mean = crossed_difference(candidate, baseline, ["rounds"])

    expected = np.nanmean(np.delete(candidate - baseline, 7, axis=0), axis=1)
    assert mean.means.size == 19
    assert mean.estimate == pytest.approx(float(expected.mean()))


def test_trainings_of_the_arms_are_sources_of_their_own():
    quality = np.array([0.0, 0.3, 0.6])[None, :, None]
    candidate, baseline = RNG.random((50, 3, 2)) + quality, RNG.random((50, 1, 2))

    mean = crossed_difference(candidate, baseline, ["rounds"], trainings=("trainings of v2", "trainings of v1"))

    assert [(part.name, part.levels) for part in mean.sources] == [
        ("samples", 50),
        ("rounds", 2),
        ("trainings of v2", 3),
    ]
    assert mean.sources[2].variance == pytest.approx(0.09 / 3, rel=0.2)
    assert mean.estimate == pytest.approx(float(candidate.mean() - baseline.mean()))
