"""Bootstrap and jackknife: of a mean and of any statistic, with and without clusters, and where nothing varies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy import stats as scipy_stats

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.point_mass import point_mass_interval
from pytest_crucible.stats.resampling.bootstrap import bootstrap
from pytest_crucible.stats.resampling.draws import draw_resampled_sums, generator, index_blocks
from pytest_crucible.stats.resampling.jackknife import jackknife
from pytest_crucible.stats.resampling.mean_bootstrap import bootstrap_mean

METHODS = ["bca", "percentile", "basic"]
SCORES = st.one_of(
    st.lists(st.integers(0, 100).map(lambda cell: cell / 100), min_size=2, max_size=25),
    st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=25),
)
NORMAL = np.random.default_rng(11).normal(2.0, 1.0, 80)
SKEWED = np.round(np.random.default_rng(12).lognormal(0.0, 0.7, 60), 2)


# -- jackknife ----------------------------------------------------------------------------------------------------


def test_the_jackknife_of_a_mean_is_its_standard_error():
    found = jackknife(NORMAL)

    assert found.se == pytest.approx(NORMAL.std(ddof=1) / math.sqrt(80), rel=1e-12)
    assert found.bias == pytest.approx(0.0, abs=1e-12)
    distances = NORMAL - NORMAL.mean()
    assert found.acceleration == pytest.approx(np.sum(distances**3) / (6 * np.sum(distances**2) ** 1.5), rel=1e-9)


def test_the_jackknife_unbiases_a_variance():
    found = jackknife(NORMAL, np.var)

    assert found.estimate - found.bias == pytest.approx(NORMAL.var(ddof=1), rel=1e-12)


def test_a_statistic_that_is_the_mean_in_other_words_gives_the_same(monkeypatch):
    monkeypatch.setattr("pytest_crucible.stats.resampling.jackknife.CELLS", 300)
    one, other = (
        jackknife(NORMAL),
        jackknife(NORMAL, lambda samples, axis: samples.sum(axis=axis) / samples.shape[axis]),
    )

    assert (one.se, one.acceleration) == pytest.approx((other.se, other.acceleration), rel=1e-9)


def test_clusters_of_one_change_nothing():
    alone, clustered = jackknife(SKEWED, np.median), jackknife(SKEWED, np.median, clusters=range(60))

    assert (alone.se, alone.bias, alone.n) == (clustered.se, clustered.bias, clustered.n)


def test_equal_values_have_no_acceleration():
    found = jackknife([0.1] * 5)

    assert (found.se, found.acceleration) == (0.0, None)


def test_scores_too_small_to_square_keep_their_acceleration():
    assert jackknife(NORMAL * 1e-200).acceleration == pytest.approx(jackknife(NORMAL).acceleration, rel=1e-9)


@pytest.mark.parametrize("values", [[], [1.0]])
def test_the_jackknife_needs_two_values(values):
    with pytest.raises(NotEnoughData, match=f"{len(values)} value"):
        jackknife(values)


# -- the bootstrap of a mean --------------------------------------------------------------------------------------


def test_small_samples_are_listed_grids_are_computed_and_others_laid_on_a_grid():
    assert bootstrap_mean(NORMAL[:8]).source == "enumerated"
    assert bootstrap_mean(SKEWED).source == "exact"
    assert bootstrap_mean(NORMAL).source == "fine grid"
    assert bootstrap_mean(NORMAL, draw=True).source == "resampled"
    assert [bootstrap_mean(values).seed for values in (NORMAL[:8], SKEWED, NORMAL)] == [None] * 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [NORMAL, SKEWED], ids=["fine", "exact"])
def test_drawing_comes_close_to_the_computed_law(method, values):
    computed = bootstrap_mean(values, method=method)
    drawn = bootstrap_mean(values, method=method, draw=True, resamples=100_000, rng=3)
    slack = 0.03 * computed.se

    assert (drawn.interval.low, drawn.interval.high) == pytest.approx(
        (computed.interval.low, computed.interval.high), abs=slack
    )
    assert drawn.se == pytest.approx(computed.se, rel=0.02)
    assert computed.se == pytest.approx(values.std() / math.sqrt(values.size), rel=1e-4)


def test_the_computed_bca_is_that_of_scipy_within_its_error():
    reference = scipy_stats.bootstrap((SKEWED,), np.mean, n_resamples=50_000, method="BCa", rng=1)
    interval = bootstrap_mean(SKEWED).interval

    assert (interval.low, interval.high) == pytest.approx(tuple(reference.confidence_interval), abs=0.004)


def test_the_same_seed_gives_the_same_answer_and_is_recorded():
    first, second = (bootstrap_mean(NORMAL, method="studentized", rng=7) for _ in range(2))
    other = bootstrap_mean(NORMAL, method="studentized", rng=8)

    assert first == second
    assert (first.seed, first.resamples) == (7, 10_000)
    assert first.interval != other.interval
    assert bootstrap_mean(NORMAL, method="studentized", rng=np.random.default_rng(7)).interval == first.interval
    assert bootstrap_mean(NORMAL, draw=True, rng=np.random.default_rng(7)).seed is None


def test_studentized_is_close_to_t_for_normal_scores():
    interval = bootstrap_mean(NORMAL, method="studentized", resamples=40_000).interval
    half = 1.9904502 * NORMAL.std(ddof=1) / math.sqrt(80)

    assert (interval.low, interval.high) == pytest.approx((NORMAL.mean() - half, NORMAL.mean() + half), abs=0.1 * half)


def test_studentized_refuses_an_interval_when_resamples_have_no_spread():
    """Nine zeros and a one: a third of the resamples are all zeros."""
    found = bootstrap_mean([0.0] * 9 + [1.0], method="studentized")

    assert (found.interval, found.status) == (None, "degenerate")
    assert "without any spread" in found.note


def test_studentized_intervals_of_equal_clusters_do_not_depend_on_the_path(monkeypatch):
    """Sizes all 2 take the short formula; forcing the long one gives the same interval from the same draws."""
    from pytest_crucible.stats.resampling import mean_bootstrap

    labels = np.repeat(np.arange(40), 2)
    short = bootstrap_mean(NORMAL, method="studentized", clusters=labels).interval
    units, _ = mean_bootstrap._units(NORMAL, labels)
    monkeypatch.setattr(
        mean_bootstrap,
        "_units",
        lambda *_: (mean_bootstrap._Units(totals=units.totals, sizes=units.sizes, even=False), 40),
    )
    long = bootstrap_mean(NORMAL, method="studentized", clusters=labels).interval

    assert (long.low, long.high) == pytest.approx((short.low, short.high), rel=1e-9)


@given(SCORES, st.sampled_from(METHODS), st.sampled_from([0.8, 0.95]))
@settings(deadline=None)
def test_intervals_are_ordered_and_lie_among_the_values(values, method, level):
    found = bootstrap_mean(values, method=method, level=level)
    if found.interval is None:
        assert found.status == "degenerate"
        assert found.note
        return

    assert found.interval.low <= found.interval.high
    assert found.interval.level == level
    if method != "basic":
        slack = 1e-6 * max(abs(value) for value in values)
        assert min(values) - slack <= found.interval.low
        assert found.interval.high <= max(values) + slack


@given(SCORES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=choose_examples(40))
def test_the_order_of_the_values_does_not_matter_without_drawing(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other = bootstrap_mean(values), bootstrap_mean(shuffled)

    assert (one.interval is None) == (other.interval is None)
    if one.interval is not None:
        slack = 2e-3 * np.ptp(values)
        assert (one.interval.low, one.interval.high) == pytest.approx(
            (other.interval.low, other.interval.high), abs=slack
        )


def test_turning_the_signs_turns_the_interval():
    one, other = bootstrap_mean(SKEWED).interval, bootstrap_mean(-SKEWED).interval

    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=0.011 / 60)


def test_adding_a_constant_moves_the_interval():
    one, other = bootstrap_mean(SKEWED).interval, bootstrap_mean(SKEWED + 100).interval

    assert (other.low - 100, other.high - 100) == pytest.approx((one.low, one.high), abs=1e-9)


def test_equal_values_have_a_point_mass_interval_or_none():
    bounded = bootstrap_mean([1.0] * 30, bounds=(0.0, 1.0))

    assert bounded.interval == point_mass_interval(1.0, 30, bounds=(0.0, 1.0))
    assert bounded.status == "degenerate"
    assert bootstrap_mean([1.0] * 30).interval is None
    assert bootstrap_mean([0.1] * 3, method="studentized", bounds=(-math.inf, 1.0)).interval is None


@pytest.mark.parametrize("values", [[], [0.5]])
def test_a_bootstrap_needs_two_values(values):
    for function in (bootstrap_mean, lambda values: bootstrap(values, np.median)):
        with pytest.raises(NotEnoughData, match=f"{len(values)} value"):
            function(values)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"level": 1.0}, "level"), ({"resamples": 5}, "100, not 5"), ({"rng": -1}, "seed")],
)
def test_wrong_options_are_refused(options, message):
    for function in (bootstrap_mean, lambda values, **given: bootstrap(values, np.median, **given)):
        with pytest.raises(ValueError, match=message):
            function(NORMAL, **options)


def test_missing_values_are_counted():
    with pytest.raises(ValueError, match="1 of 3"):
        bootstrap_mean([0.1, math.nan, 0.3])
    with pytest.raises(ValueError, match="2 of 6"):
        bootstrap([[0.1, math.nan], [0.2, 0.3], [math.inf, 1.0]], np.median)


# -- clusters -----------------------------------------------------------------------------------------------------


def test_clusters_of_one_size_are_their_means():
    labels = np.repeat(np.arange(12), 5)
    clustered, means = bootstrap_mean(SKEWED, clusters=labels), bootstrap_mean(SKEWED.reshape(12, 5).mean(axis=1))

    assert (clustered.interval.low, clustered.interval.high) == pytest.approx(
        (means.interval.low, means.interval.high), abs=1e-9
    )
    assert (clustered.n, clustered.clusters) == (60, 12)
    assert "12 clusters" in clustered.note


def test_clusters_of_different_sizes_are_drawn_whole():
    labels = np.r_[np.repeat(np.arange(20), 2), np.arange(20, 40)]
    ours = bootstrap_mean(SKEWED, clusters=labels, method="percentile", rng=5)
    generic = bootstrap(SKEWED, np.mean, clusters=labels, method="percentile", rng=5)

    assert (ours.source, ours.seed, ours.clusters, ours.note) == ("resampled", 5, 40, "")
    assert (generic.interval.low, generic.interval.high) == pytest.approx(
        (ours.interval.low, ours.interval.high), abs=1e-9
    )


def test_few_clusters_of_different_sizes_are_listed():
    values, labels = SKEWED[:14], [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5]
    listed = bootstrap_mean(values, clusters=labels, method="percentile")
    drawn = bootstrap_mean(values, clusters=labels, method="percentile", draw=True, resamples=100_000)

    assert (listed.source, listed.seed) == ("enumerated", None)
    assert (listed.interval.low, listed.interval.high) == pytest.approx(
        (drawn.interval.low, drawn.interval.high), abs=0.05 * listed.se
    )


def test_correlated_clusters_widen_the_interval():
    values = np.repeat(np.random.default_rng(4).normal(size=30), 10) + np.random.default_rng(5).normal(0, 0.1, 300)
    alone = bootstrap_mean(values).interval
    clustered = bootstrap_mean(values, clusters=np.repeat(np.arange(30), 10)).interval

    assert clustered.high - clustered.low > 2.5 * (alone.high - alone.low)


def test_fewer_than_five_clusters_are_refused():
    with pytest.raises(NotEnoughData, match="4 cluster"):
        bootstrap_mean(SKEWED, clusters=np.arange(60) % 4)
    with pytest.raises(NotEnoughData, match="4 cluster"):
        bootstrap(SKEWED, np.median, clusters=np.arange(60) % 4)


# -- any statistic ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_the_generic_bootstrap_of_a_small_mean_is_that_of_the_mean(method):
    one, other = bootstrap(SKEWED[:7], np.mean, method=method), bootstrap_mean(SKEWED[:7], method=method)

    assert one.source == other.source == "enumerated"
    assert (one.interval.low, one.interval.high) == pytest.approx((other.interval.low, other.interval.high), abs=1e-9)


def test_the_bootstrap_of_a_deviation_is_that_of_scipy():
    def deviation(samples, axis):
        return np.std(samples, axis=axis, ddof=1)

    found = bootstrap(NORMAL, deviation, resamples=40_000, rng=2)
    reference = scipy_stats.bootstrap((NORMAL,), deviation, n_resamples=40_000, method="BCa", rng=2)

    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(reference.confidence_interval), abs=0.01)
    assert found.acceleration == pytest.approx(jackknife(NORMAL, deviation).acceleration)


def test_rows_are_resampled_whole():
    """A ratio of totals: numerator and denominator of a row stay together, so that a fixed ratio never varies."""
    counts = np.random.default_rng(6).integers(1, 9, 30)

    def ratio(samples, axis):
        totals = samples.sum(axis=axis)
        return totals[..., 0] / totals[..., 1]

    fixed = bootstrap(np.stack([3.0 * counts, counts], axis=1), ratio)
    varying = bootstrap(np.stack([3.0 * counts + NORMAL[:30], counts], axis=1), ratio)

    assert (fixed.estimate, fixed.interval, fixed.status) == (pytest.approx(3.0), None, "degenerate")
    assert varying.interval.low < varying.estimate < varying.interval.high


def test_resamples_without_a_value_leave_no_interval():
    """The share of passes among attempts: some resamples have no attempt."""
    attempts = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])

    def share(samples, axis):
        totals = samples.sum(axis=axis)
        with np.errstate(invalid="ignore"):
            return totals[..., 0] / totals[..., 1]

    found = bootstrap(attempts, share, method="percentile")

    assert found.interval is None
    assert "leave the statistic undefined" in found.note


def test_bca_needs_a_jackknife_that_varies():
    """The median of mostly equal values does not move when one is left out."""
    found = bootstrap([1.0] * 9 + [2.0, 3.0, 4.0], np.median)

    assert (found.interval, found.status) == (None, "degenerate")
    assert bootstrap([1.0] * 9 + [2.0, 3.0, 4.0], np.median, method="percentile").interval is not None


def test_a_statistic_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="one number for each"):
        bootstrap(NORMAL, lambda samples, axis: samples, method="percentile")


# -- draws --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 1000, 70_000])
def test_blocks_hold_all_resamples_and_only_indices(n):
    blocks = list(index_blocks(n, 101, np.random.default_rng(0)))

    assert sum(len(block) for block in blocks) == 101
    assert all(block.shape[1] == n and block.max() < n for block in blocks)


def test_resampled_sums_have_the_moments_of_the_bootstrap():
    sums = draw_resampled_sums(np.stack([NORMAL, NORMAL**2]), 20_000, np.random.default_rng(0))

    assert sums.shape == (2, 20_000)
    assert sums[0].mean() == pytest.approx(NORMAL.sum(), abs=4 * NORMAL.std() * math.sqrt(80 / 20_000))
    assert sums[0].std() == pytest.approx(NORMAL.std() * math.sqrt(80), rel=0.03)


def test_a_generator_is_used_as_it_is():
    given = np.random.default_rng(1)

    assert generator(given) == (given, None)


def test_a_bootstrap_reads_in_one_line():
    assert str(bootstrap_mean([0.0, 1.0] * 10, method="percentile")).endswith("], n=20 (bootstrap percentile, exact)")
    assert "[no interval]" in str(bootstrap_mean([1.0] * 10))


def test_a_statistic_without_an_axis_is_asked_sample_by_sample():
    values = np.random.default_rng(4).random(30)

    found, at_once = (
        bootstrap(values, statistic, resamples=200, rng=1)
        for statistic in (lambda sample: float(np.median(sample)), np.median)
    )

    assert found == at_once
