"""Targets and comparisons by slices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from answer_builders import analysis_inputs, arm

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import analyse, score_table, uses_expected, uses_fields
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import (
    Contrast,
    PlannedVariant,
)
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.stats.slices.pair_scores import difference_bounds

SEX = [{"sex": "f"}] * 50 + [{"sex": "m"}] * 50
FAIR = [True] * 40 + [False] * 10 + [True] * 40 + [False] * 10
UNFAIR = [True] * 20 + [False] * 30 + [True] * 45 + [False] * 5


def run_analysis(*arms, metadata=SEX, **facts):
    inputs = analysis_inputs(*arms, **facts)
    inputs = replace(inputs, metadata=metadata, expected=[None] * len(metadata))
    return analyse(inputs, score_table(inputs), alpha=0.05, family_size=1)


def target(text, *values, **facts):
    return run_analysis(arm(ok=list(values[0])), targets=[text], **facts).targets[0]


def test_a_gap_has_its_bounds_and_the_pair_that_they_are_of():
    result = target("gap(ok by sex) <= 0.1", UNFAIR)

    assert result.estimate.value == pytest.approx(0.5)
    assert result.estimate.statistic == "gap by sex"
    assert result.evidence.observed.lower_of == "m 0.9, f 0.4"
    assert result.evidence.observed.lower > 0.3
    assert result.needed is not None


def test_an_interval_has_no_gap_below_0_and_no_ratio_above_1():
    gap, ratio = (target(text, FAIR) for text in ("gap(ok by sex) <= 0.5", "ratio(ok by sex) >= 0.5"))

    assert (gap.estimate.interval.low, gap.evidence.observed.lower) == (0, 0)
    assert (ratio.estimate.interval.high, ratio.evidence.observed.upper) == (1, 1)


def test_lost_samples_enter_each_pair_at_their_worst_and_best():
    values = [*FAIR[:-10], *["lost"] * 10]

    result = target("gap(ok by sex) <= 0.4", values)

    # 40 of 40 scored men are right; of all 50 it may be 40 or 50, and the women are 40 of 50.
    assert result.estimate.value == pytest.approx(0.2)
    assert (result.estimate.lost, result.estimate.n) == (10, 90)
    assert result.evidence.worst.value == pytest.approx(0.0)
    assert result.evidence.best.value == pytest.approx(0.2)


def test_a_slice_without_a_rate_is_named_and_cannot_be_proven_fair():
    values = [*FAIR[:50], *[None] * 50]
    metadata = [*SEX[:25], *[{"sex": "x"}] * 25, *SEX[50:]]

    result = target("gap(ok by sex) <= 0.9", values, metadata=metadata)

    assert result.evidence.observed.upper is None
    assert "'m' has no ok, so fairness cannot be proven" in result.note


def test_a_ratio_of_rates_that_are_all_0_is_undefined():
    result = target("ratio(ok by sex) >= 0.8", [False] * 100)

    assert (result.estimate.value, result.note) == (None, "all rates are 0, so that the ratio is undefined")
    assert target("gap(ok by sex) <= 0.1", [False] * 100).estimate.value == 0


def test_one_metric_that_can_be_compared_is_enough_to_prove_a_gap():
    hits, misses = [True] * 50 + [False] * 50, [True] * 50 + [None] * 50

    result = run_analysis(arm(tp=hits, fp=misses), targets=["gap(tp, fp by sex) <= 0.1"]).targets[0]

    assert result.evidence.observed.lower > 0.1
    assert result.evidence.observed.upper is None
    assert "'m' has no fp" in result.note


def test_samples_without_the_field_are_counted():
    result = target("gap(ok by sex) <= 0.9", FAIR, metadata=[*SEX[:-4], {}, {}, {}, {}])

    assert result.note == "4 samples lack the field"


def test_the_worst_slice_has_bounds_of_its_own():
    result = target("worst(ok by sex) >= 0.3", UNFAIR)

    assert result.estimate.value == pytest.approx(0.4)
    assert result.evidence.observed.lower_of == "f 0.4"
    assert result.evidence.observed.lower < 0.3 < result.evidence.observed.upper
    assert target("worst(ok by sex) <= 1", UNFAIR).evidence.observed.upper < 0.6
    # 40 % of 50 against .3, and of all samples twice as many.
    assert result.needed == 2 * stats.samples_to_prove_proportion(0.4, 0.3, alpha=0.05, side="lower")
    bad = target("worst(ok by sex) >= 0.5", UNFAIR)
    assert bad.needed == 2 * stats.samples_to_prove_proportion(0.4, 0.5, alpha=0.025, side="upper")


def test_metrics_of_a_gap_count_on_the_samples_that_each_applies_to():
    hits = [True, None] * 25 + [False, None] * 25
    misses = [None, True] * 50

    result = run_analysis(arm(tp=hits, fp=misses), targets=["gap(tp, fp by sex) <= 0.1"]).targets[0]

    assert result.estimate.value == 1.0
    assert (result.estimate.n, result.estimate.inapplicable) == (100, 0)
    assert result.evidence.observed.lower_of.startswith("tp: ")


def test_a_change_of_a_gap_is_positive_where_the_candidate_is_fairer():
    contrast = replace(parse_contrast("gap(ok by sex)"), baseline="v1")

    (fairer,) = run_analysis(arm(ok=FAIR), arm(ok=UNFAIR), contrasts=[contrast]).comparisons
    (less,) = run_analysis(arm(ok=UNFAIR), arm(ok=FAIR), contrasts=[contrast]).comparisons

    assert fairer.difference == pytest.approx(0.5)
    assert fairer.interval.low > 0
    assert less.difference == pytest.approx(-0.5)
    assert less.p_value == pytest.approx(fairer.p_value)


def test_a_ratio_changes_by_a_ratio():
    contrast = replace(parse_contrast("ratio(ok by sex)"), baseline="v1")

    (change,) = run_analysis(arm(ok=UNFAIR), arm(ok=FAIR), contrasts=[contrast]).comparisons

    assert change.ratio.value == pytest.approx(0.4 / 0.9)
    assert change.difference < 0


def test_a_comparison_of_one_slice_is_that_of_its_samples_alone():
    contrast = Contrast(metric="ok", baseline="v1", by=By((Field("sex"),)), slice="m")

    (comparison,) = run_analysis(arm(ok=UNFAIR), arm(ok=FAIR), contrasts=[contrast]).comparisons
    (alone,) = run_analysis(
        arm(ok=UNFAIR[50:]), arm(ok=FAIR[50:]), contrasts=[Contrast(metric="ok", baseline="v1")], metadata=SEX[50:]
    ).comparisons

    assert (comparison.pairs, comparison.difference, comparison.p_value) == (50, alone.difference, alone.p_value)


@pytest.mark.parametrize(
    ("expression", "ours", "metadata", "note"),
    [
        ("ratio(ok by sex)", [False] * 100, SEX, "all rates are 0, so that the ratio is undefined"),
        ("ratio(ok by sex)", [False] * 50 + [True] * 50, SEX,
         "'f' has a rate of 0 in one of the arms, so that the change of the ratio is undefined"),
        ("gap(ok by sex)", [*[None] * 50, *FAIR[50:]], SEX, "fewer than two slices have a rate"),
        ("gap(ok by sex)", [*FAIR[:49], None, *FAIR[50:]], [*SEX[:49], {"sex": "x"}, *SEX[50:]],
         "'x' has no rate in one of the arms"),
        ("gap(ok by sex)", FAIR, [{"sex": "x"}, {"sex": "y"}, *SEX[2:]],
         "'x', 'y' have one sample, and a change needs two in each slice"),
    ],
    ids=["zeros", "zero", "rates", "rate", "single"],
)  # fmt: skip
def test_a_change_that_is_unknown_names_the_slices(expression, ours, metadata, note):
    contrast = replace(parse_contrast(expression), baseline="v1")

    (change,) = run_analysis(arm(ok=ours), arm(ok=FAIR), contrasts=[contrast], metadata=metadata).comparisons

    assert (change.difference, change.note) == (None, note)


def test_a_slice_that_lacks_a_stratum_is_not_said_to_lack_the_metric():
    ages = ["young"] * 25 + ["old"] * 75
    metadata = [{**sex, "age": age} for sex, age in zip(SEX, ages, strict=True)]

    result = target("gap(ok by sex within age) <= 0.1", FAIR, metadata=metadata)

    few = "'m' lacks some of the 2 values of age; choose a field with fewer, or leave out 'within'"
    assert result.note == f"fewer than two slices have a rate: {few}"
    metadata[60] = {"sex": "m", "age": "young"}
    metadata[61] = {"sex": "x", "age": "old"}
    result = target("gap(ok by sex within age) <= 0.1", FAIR, metadata=metadata)
    assert result.note == "'x' has no ok in some age, so fairness cannot be proven"
    assert result.estimate.interval.low >= -1


def test_a_slice_that_a_metric_does_not_apply_to_has_a_note():
    contrasts = [Contrast(metric="ok", baseline="v1", by=By((Field("sex"),)), slice=name) for name in "fm"]
    values = [*[None] * 50, *FAIR[50:]]

    empty, whole = run_analysis(arm(ok=values), arm(ok=values), contrasts=contrasts).comparisons

    assert (empty.pairs, empty.note) == (0, "ok applies to no sample of this slice")
    assert whole.pairs == 50


def test_twins_are_paired():
    originals, twins = [True] * 60 + [False] * 40, [True] * 48 + [False] * 52
    inputs = analysis_inputs(arm(ok=originals), targets=["gap(ok by twin) <= 0.02", "gap(ok by sex) <= 0.9"])
    variant = PlannedVariant(name="female", sha256="", samples=100)
    inputs = replace(
        inputs, plan=replace(inputs.plan, variants=(variant,)), variants={"female": (arm(ok=twins),)},
        metadata=[{**sample, "twin": "male"} for sample in SEX], expected=[None] * 100,
    )  # fmt: skip

    of_twins, of_originals = analyse(inputs, score_table(inputs), alpha=0.05, family_size=1).targets

    assert of_twins.estimate.value == pytest.approx(0.12)
    assert of_twins.estimate.clusters == 100
    assert of_twins.evidence.observed.lower > 0.05
    counts = [np.array([count]) for count in (60.0, 100.0, 48.0, 100.0)]
    unpaired = difference_bounds(*counts, 1.96, upper=False)
    assert unpaired[0] < 0
    assert of_originals.estimate.n == 100


def test_a_plan_by_a_field_uses_fields_and_expected_values():
    plan = analysis_inputs(arm(ok=FAIR), targets=["gap(ok by sex) <= 0.1"]).plan

    assert uses_fields(plan)
    assert uses_expected(plan)
    assert not uses_fields(analysis_inputs(arm(ok=FAIR), targets=["ok >= 0.1"]).plan)
