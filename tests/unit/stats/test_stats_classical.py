"""Textbook tests: results where the data define no statistic, and errors. `tests/reference` has the numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

from pytest_crucible import stats

RNG = np.random.default_rng(5)
FIRST, SECOND, THIRD = (RNG.normal(size=n) for n in (12, 15, 9))
EQUAL = np.full(6, 0.5)


@pytest.mark.parametrize(
    "test",
    [
        lambda: stats.anova_oneway([EQUAL, EQUAL + 1]),
        lambda: stats.levene([EQUAL, EQUAL]),
        lambda: stats.variance_ratio(FIRST, EQUAL),
        lambda: stats.pearson(EQUAL, FIRST[:6]),
        lambda: stats.spearman(EQUAL, FIRST[:6]),
        lambda: stats.kendall(EQUAL, FIRST[:6]),
        lambda: stats.pearson(FIRST, 2 * FIRST),
    ],
)
def test_data_without_variation_have_no_p_value_and_never_certainty(test):
    result = test()

    assert result.p_value is None
    assert result.status == "degenerate"
    assert result.note


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_the_numbers_are_those_of_scipy(alternative):
    pairs = FIRST, SECOND[:12]
    ours = [
        stats.mann_whitney(FIRST, SECOND, alternative=alternative),
        stats.wilcoxon_signed_rank(*pairs, alternative=alternative),
        stats.pearson(*pairs, alternative=alternative),
        stats.spearman(*pairs, alternative=alternative),
        stats.kendall(*pairs, alternative=alternative),
    ]
    theirs = [
        scipy_stats.mannwhitneyu(FIRST, SECOND, alternative=alternative),
        scipy_stats.wilcoxon(*pairs, alternative=alternative),
        scipy_stats.pearsonr(*pairs, alternative=alternative),
        scipy_stats.spearmanr(*pairs, alternative=alternative),
        scipy_stats.kendalltau(*pairs, alternative=alternative),
    ]

    assert [result.p_value for result in ours] == pytest.approx([result.pvalue for result in theirs], rel=1e-12)


def test_effect_sizes_of_a_variance_analysis_follow_from_its_sums_of_squares():
    groups = [FIRST, SECOND, THIRD]
    values = np.concatenate(groups)
    between = sum(group.size * (group.mean() - values.mean()) ** 2 for group in groups)
    within = sum(((group - group.mean()) ** 2).sum() for group in groups)
    error = within / (values.size - 3)
    effects = {effect.name: effect.value for effect in stats.anova_oneway(groups).effects}

    assert effects["eta squared"] == pytest.approx(between / (between + within), rel=1e-9)
    assert effects["omega squared"] == pytest.approx((between - 2 * error) / (between + within + error), rel=1e-9)
    assert effects["epsilon squared"] == pytest.approx((between - 2 * error) / (between + within), rel=1e-9)


@pytest.mark.parametrize(
    ("test", "sentence"),
    [
        (lambda: stats.mann_whitney([], [1.0]), "0 values: this test needs at least 1"),
        (lambda: stats.shapiro_wilk([1.0, 2.0]), "2 values: this test needs at least 3"),
        (lambda: stats.pearson([1.0, 2.0], [2.0, 1.0]), "2 values: this test needs at least 3"),
        (lambda: stats.anova_oneway([[1.0], [2.0]]), "2 values in 2 groups"),
    ],
)
def test_too_few_values_are_an_error(test, sentence):
    with pytest.raises(stats.NotEnoughData, match=sentence):
        test()


def test_invalid_data_and_options_are_errors():
    with pytest.raises(ValueError, match="expected at least 2 groups with values, not 2 of which 1 are empty"):
        stats.levene([[1.0, 2.0], []])
    with pytest.raises(ValueError, match="5001 values"):
        stats.shapiro_wilk(np.arange(5001.0))
    with pytest.raises(ValueError, match="pairs need equal lengths"):
        stats.spearman([1.0, 2.0, 3.0], [1.0, 2.0])
