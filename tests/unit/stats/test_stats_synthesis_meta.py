"""Meta-analysis: the BCG trials as metafor has them, edges, and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples
from scipy import optimize
from scipy import stats as scipy_stats

from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.synthesis.heterogeneity import between_variance, cochran_q
from pytest_crucible.stats.synthesis.meta import meta_analysis

BCG = np.array(
    [
        *[(4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761)],
        *[(180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232)],
        *[(17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825)],
    ],
    dtype=float,
)
"""Colditz et al. 1994: tuberculosis yes and no among the vaccinated, then among the others."""
MODELS = ("fixed", "reml", "paule-mandel", "dersimonian-laird")
ADJUSTMENTS = ("hartung-knapp", "modified", "none")


def log_risk_ratios():
    cases, healthy, others, healthy_others = BCG.T
    ratios = np.log(cases / (cases + healthy)) - np.log(others / (others + healthy_others))
    variances = 1 / cases - 1 / (cases + healthy) + 1 / others - 1 / (others + healthy_others)
    return ratios, np.sqrt(variances)


@st.composite
def studies(draw: st.DrawFn):
    k = draw(st.integers(2, 12))
    effects = draw(st.lists(st.floats(-3, 3).map(lambda value: round(value, 3)), min_size=k, max_size=k))
    return effects, draw(st.lists(st.floats(0.05, 2), min_size=k, max_size=k))


@pytest.mark.parametrize(
    ("model", "tau2", "estimate", "se", "i2"),
    [
        ("reml", 0.3132, -0.7145, 0.1798, 0.9222),
        ("dersimonian-laird", 0.3088, -0.7141, 0.1787, 0.9212),
        ("paule-mandel", 0.3181, -0.7150, 0.1809, 0.9233),
        ("fixed", 0.0, -0.4303, 0.0405, 0.9212),
    ],
)
def test_the_bcg_trials_are_those_of_metafor(model, tau2, estimate, se, i2):
    result = meta_analysis(*log_risk_ratios(), model=model, adjustment="none")

    assert [round(value, 4) for value in (result.tau2, result.estimate, result.se, result.i2)] == [
        tau2,
        estimate,
        se,
        i2,
    ]
    assert round(result.q, 4) == 152.2330
    assert result.q_p_value < 1e-20


def test_the_intervals_of_the_bcg_trials_are_those_of_metafor():
    result = meta_analysis(*log_risk_ratios(), adjustment="none")
    rounded = [
        (round(interval.low, 4), round(interval.high, 4))
        for interval in (result.interval, result.tau2_interval, result.i2_interval, result.prediction)
    ]

    assert rounded == [(-1.0669, -0.3622), (0.1197, 1.1115), (0.8192, 0.9768), (-1.8667, 0.4376)]


def test_hartung_and_knapp_on_the_bcg_trials():
    result = meta_analysis(*log_risk_ratios())

    assert (round(result.se, 4), round(result.statistic, 4), round(result.p_value, 4)) == (0.1808, -3.9522, 0.0019)
    assert (round(result.interval.low, 4), round(result.interval.high, 4)) == (-1.1084, -0.3206)


@given(studies())
@settings(max_examples=choose_examples(50))
def test_reml_is_where_the_restricted_likelihood_is_largest(data):
    effects, variances = np.array(data[0]), np.array(data[1]) ** 2

    def minus_log_likelihood(tau2):
        weights = 1 / (variances + tau2)
        return 0.5 * (np.log(variances + tau2).sum() + math.log(weights.sum()) + cochran_q(effects, variances, tau2))

    tau2 = between_variance(effects, variances, "reml")
    nearby = optimize.minimize_scalar(minus_log_likelihood, bounds=(max(0, tau2 * 0.7 - 0.02), tau2 * 1.3 + 0.02)).x

    assert minus_log_likelihood(tau2) <= minus_log_likelihood(nearby) + 1e-9


@given(studies())
def test_paule_and_mandel_make_q_its_degrees_of_freedom(data):
    effects, variances = np.array(data[0]), np.array(data[1]) ** 2
    tau2 = between_variance(effects, variances, "paule-mandel")

    if tau2:
        assert cochran_q(effects, variances, tau2) == pytest.approx(len(effects) - 1)
    else:
        assert cochran_q(effects, variances) <= len(effects) - 1 + 1e-9


@given(studies())
def test_q_at_the_ends_of_the_tau2_interval_is_no_surprise(data):
    effects, variances = np.array(data[0]), np.array(data[1]) ** 2
    interval, dof = meta_analysis(*data).tau2_interval, len(effects) - 1

    assert 0 <= interval.low <= interval.high
    if interval.low:
        assert scipy_stats.chi2.sf(cochran_q(effects, variances, interval.low), dof) == pytest.approx(0.025)
    if interval.high:
        assert scipy_stats.chi2.cdf(cochran_q(effects, variances, interval.high), dof) == pytest.approx(0.025)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("adjustment", ADJUSTMENTS)
@given(data=studies())
@settings(max_examples=choose_examples(25))
def test_swapping_the_sign_of_all_effects_flips_the_mean_and_keeps_the_rest(model, adjustment, data):
    effects, errors = data
    result = meta_analysis(effects, errors, model=model, adjustment=adjustment)
    mirrored = meta_analysis(np.negative(effects), errors, model=model, adjustment=adjustment)

    assert mirrored.estimate == pytest.approx(-result.estimate, abs=1e-12)
    assert mirrored.tau2 == pytest.approx(result.tau2)
    if result.interval is None:
        assert mirrored.interval is None
        return
    assert mirrored.p_value == pytest.approx(result.p_value)
    assert mirrored.interval.low == pytest.approx(-result.interval.high)
    assert result.interval.low <= result.estimate <= result.interval.high
    assert sum(study.weight for study in result.studies) == pytest.approx(1)
    if min(abs(result.interval.low), abs(result.interval.high)) > 1e-9:
        assert (result.p_value < 0.05) == (result.interval.low > 0 or result.interval.high < 0)


@pytest.mark.parametrize("model", MODELS)
@given(data=studies(), shift=st.floats(-10, 10), unit=st.floats(0.1, 10))
@settings(max_examples=choose_examples(25))
def test_another_origin_and_unit_move_the_mean_with_them(model, data, shift, unit):
    effects, errors = np.array(data[0]), np.array(data[1])
    result = meta_analysis(effects, errors, model=model)
    moved = meta_analysis(effects * unit + shift, errors * unit, model=model)

    assert moved.estimate == pytest.approx(result.estimate * unit + shift, abs=1e-7)
    assert moved.tau2 == pytest.approx(result.tau2 * unit**2, rel=1e-6, abs=1e-9)
    assert moved.i2 == pytest.approx(result.i2, abs=1e-7)


@given(st.floats(-3, 3), st.lists(st.floats(0.05, 2), min_size=2, max_size=9))
def test_equal_effects_are_the_fixed_effect(effect, errors):
    effects = [effect] * len(errors)
    fixed = meta_analysis(effects, errors, model="fixed")
    for model in MODELS[1:]:
        result = meta_analysis(effects, errors, model=model, adjustment="none")
        modified = meta_analysis(effects, errors, model=model, adjustment="modified")

        assert result.tau2 == 0
        assert result.i2 == 0
        assert result.se == pytest.approx(fixed.se)
        assert modified.se == pytest.approx(fixed.se)
        assert result.interval.low == pytest.approx(fixed.interval.low)
        assert modified.interval.low < fixed.interval.low


def test_equal_effects_have_no_hartung_knapp_interval():
    result = meta_analysis([0.3, 0.3, 0.1 + 0.2], [0.1, 0.2, 0.3])

    assert (result.interval, result.p_value, result.statistic, result.se) == (None, None, None, 0)
    assert "modified" in result.note


@given(studies())
def test_the_modified_error_is_never_below_the_usual_one(data):
    plain, knapp, modified = (meta_analysis(*data, adjustment=name) for name in ("none", "hartung-knapp", "modified"))

    assert modified.se == pytest.approx(max(plain.se, knapp.se))
    assert plain.estimate == modified.estimate


def test_the_forest_has_a_line_for_each_study():
    result = meta_analysis([0.1, 0.5], [0.1, 0.2], labels=["english", "german"], model="fixed")

    assert [study.label for study in result.studies] == ["english", "german"]
    assert [study.weight for study in result.studies] == pytest.approx([0.8, 0.2])
    assert result.studies[1].interval.low == pytest.approx(0.5 - 1.959964 * 0.2)
    assert result.estimate == pytest.approx(0.18)
    assert result.prediction is None
    assert meta_analysis([0.1, 0.5], [0.1, 0.2]).studies[0].label == "study 1"


def test_the_next_study_is_less_certain_than_the_mean():
    result = meta_analysis(*log_risk_ratios())

    assert result.prediction.low < result.interval.low < result.interval.high < result.prediction.high


@pytest.mark.parametrize(("k", "noted"), [(2, True), (4, True), (5, False)])
def test_few_studies_are_noted(k, noted):
    assert bool(meta_analysis(np.arange(k), np.ones(k)).note) is noted


@pytest.mark.parametrize("k", [0, 1])
def test_one_study_is_no_meta_analysis(k):
    with pytest.raises(NotEnoughData, match=f"^{k} study"):
        meta_analysis([0.1] * k, [0.1] * k)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([1, 2], [0.1, 0]), {}, "1 of 2 standard errors are not above 0"),
        (([1, 2], [-0.1, 0]), {}, "2 of 2 standard errors"),
        (([1, 2, 3], [1, 1]), {}, r"\[2, 3\]"),
        (([1, 2], [1, 1]), {"labels": ["a"]}, r"\[1, 2\]"),
        (([1, math.nan], [1, 1]), {}, "1 of 2 estimates"),
        (
            ([1, 2], [1, 1]),
            {"model": "bayes"},
            "model must be one of fixed, reml, paule-mandel, dersimonian-laird, not",
        ),
        (([1, 2], [1, 1]), {"adjustment": "some"}, "adjustment must be .hartung-knapp., .modified. or .none., not"),
        (([1, 2], [1, 1]), {"level": 1.5}, "level"),
    ],
)
def test_wrong_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        meta_analysis(*arguments, **options)
