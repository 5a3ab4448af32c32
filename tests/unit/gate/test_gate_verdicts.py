"""Verdicts: what may be said of a target or a comparison, and what may not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_builders import plan_of

from pytest_crucible.gate import AdjustedPValues, adjust_p_values, decide_comparison, decide_target, decide_verdicts
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import (
    Analysis,
    BoundedValue,
    Claim,
    Comparison,
    Contrast,
    Estimate,
    Evidence,
    SectionOutcome,
    Target,
    TargetResult,
    Verdict,
)
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.sections import drift
from pytest_crucible.sections.drift import Drift
from pytest_crucible.stats.interval import Interval

ALPHA = 0.05


def reading(value=0.0, lower=None, upper=None, p=None) -> BoundedValue:
    return BoundedValue(value=value, lower=lower, upper=upper, p_value=p, proof_p=p)


def both(p: float | None) -> AdjustedPValues:
    """The p-values of a statistic whose test and bounds are one procedure."""
    return AdjustedPValues(alike=p, proof=p)


def evidence(observed: BoundedValue, worst: BoundedValue | None = None, best: BoundedValue | None = None) -> Evidence:
    return Evidence(observed=observed, worst=worst or observed, best=best or observed, method="m")


def target_result(text: str, evidence: Evidence, *, lost=0, needed=None, n=50, decide="point") -> TargetResult:
    value = evidence.observed.value
    estimate = Estimate(
        metric="a", statistic="mean", arm="v2", n=n, lost=lost, inapplicable=0, value=value, unconditional=None,
        interval=None, clusters=None, method="wilson",
    )  # fmt: skip
    target = parse_target(text, decide=decide)
    return TargetResult(target=target, estimate=estimate, evidence=evidence, needed=needed)


def comparison(
    evidence: Evidence, contrast: Contrast | None = None, *, lost=0, needed=None, detectable=None
) -> Comparison:
    observed = evidence.observed
    interval = None if observed.value is None else Interval(low=-1, high=1, level=0.95, method="tango")
    return Comparison(
        contrast=contrast or Contrast(metric="a", baseline="v1"), candidate="v2", pairs=100, lost=lost, clusters=None,
        difference=observed.value, interval=interval, p_value=observed.p_value, proof_p=observed.proof_p,
        p_exact=None, method="tango",
        evidence=evidence, detectable=detectable, needed=needed, note="",
    )  # fmt: skip


def analysis(
    *results: TargetResult | Comparison, nodeid="t.py::t", selected=100, finished=True, targets=(), contrasts=()
) -> Analysis:
    judged = tuple(result for result in results if isinstance(result, TargetResult))
    compared = tuple(result for result in results if isinstance(result, Comparison))
    plan = plan_of(
        "v2",
        n=100,
        nodeid=nodeid,
        selected=selected,
        targets=(*(entry.target for entry in judged), *map(parse_target, targets)),
        contrasts=(*(entry.contrast for entry in compared), *contrasts),
    )
    return Analysis(
        plan=plan, estimates=(), targets=judged, comparisons=compared, kinds={"a": "binary"},
        finished=finished,
    )  # fmt: skip


def verdicts(*analyses: Analysis, strict=False, family_size=None) -> tuple[Verdict, ...]:
    contrasts = sum(len(analysis.plan.contrasts) for analysis in analyses) if family_size is None else family_size
    return decide_verdicts(
        adjust_p_values(analyses, family_size=contrasts), alpha=ALPHA, strict=strict, family_size=contrasts
    )


def verdict(*results: TargetResult | Comparison, strict=False, family_size=None, **facts) -> Verdict:
    [item] = verdicts(analysis(*results, **facts), strict=strict, family_size=family_size)
    return item


# -- targets ------------------------------------------------------------------------------------------------------

TABLE = [
    # relation, value, lower, upper: by the estimate, by proof
    (">=", 0.6, 0.55, 0.65, ("met", True), ("met", True)),
    (">=", 0.6, 0.50, 0.65, ("met", True), ("met", True)),
    (">=", 0.6, 0.45, 0.70, ("met", False), ("undecided", False)),
    (">=", 0.5, 0.40, 0.60, ("met", False), ("undecided", False)),
    (">=", 0.4, 0.30, 0.55, ("missed", False), ("undecided", False)),
    (">=", 0.4, 0.30, 0.50, ("missed", False), ("undecided", False)),
    (">=", 0.4, 0.30, 0.45, ("missed", True), ("missed", True)),
    (">=", 0.6, None, None, ("met", False), ("undecided", False)),
    (">=", 0.4, None, None, ("missed", False), ("undecided", False)),
    (">", 0.6, 0.55, 0.65, ("met", True), ("met", True)),
    (">", 0.6, 0.50, 0.65, ("met", False), ("undecided", False)),
    (">", 0.5, 0.40, 0.60, ("missed", False), ("undecided", False)),
    (">", 0.4, 0.30, 0.50, ("missed", True), ("missed", True)),
    ("<=", 0.4, 0.35, 0.45, ("met", True), ("met", True)),
    ("<=", 0.4, 0.35, 0.50, ("met", True), ("met", True)),
    ("<=", 0.4, 0.35, 0.55, ("met", False), ("undecided", False)),
    ("<=", 0.5, 0.40, 0.60, ("met", False), ("undecided", False)),
    ("<=", 0.6, 0.45, 0.70, ("missed", False), ("undecided", False)),
    ("<=", 0.6, 0.55, 0.70, ("missed", True), ("missed", True)),
    ("<=", 0.6, None, None, ("missed", False), ("undecided", False)),
    ("<", 0.4, 0.35, 0.45, ("met", True), ("met", True)),
    ("<", 0.4, 0.35, 0.50, ("met", False), ("undecided", False)),
    ("<", 0.5, 0.40, 0.60, ("missed", False), ("undecided", False)),
    ("<", 0.6, 0.50, 0.70, ("missed", True), ("missed", True)),
    ("==", 0.5, 0.40, 0.60, ("met", False), ("met", False)),
    ("==", 0.5, 0.50, 0.50, ("met", False), ("met", False)),
    ("==", 0.4, 0.30, 0.55, ("missed", False), ("missed", False)),
    ("==", 0.4, 0.30, 0.45, ("missed", True), ("missed", True)),
    ("==", 0.6, 0.55, 0.65, ("missed", True), ("missed", True)),
]


@pytest.mark.parametrize(("relation", "value", "lower", "upper", "by_estimate", "by_proof"), TABLE)
def test_a_target_is_decided_by_its_estimate_or_its_bounds(relation, value, lower, upper, by_estimate, by_proof):
    target = parse_target(f"a {relation} 0.5")
    measured = reading(value, lower, upper)

    assert decide_target(target, measured, strict=False) == by_estimate
    assert decide_target(target, measured, strict=True) == by_proof
    assert decide_target(replace(target, decide="bound"), measured, strict=False) == by_proof
    assert decide_target(replace(target, decide="bound"), measured, strict=True) == by_proof


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("relation", [">=", "<=", ">", "<", "=="])
def test_a_target_without_a_number_is_undecided(relation, strict):
    assert decide_target(parse_target(f"a {relation} 0"), reading(None), strict=strict) == ("undecided", False)


@pytest.mark.parametrize(
    ("text", "value", "state"),
    [
        ("a >= 0.95", 19 / 20, "met"),
        ("a >= 0.95", sum([0.1] * 19) / 2, "met"),
        ("a <= 0.3", 0.1 + 0.2, "met"),
        ("a == 0.3", 0.1 + 0.2, "met"),
        ("a > 0.3", 0.1 + 0.2, "missed"),
        ("a < 0.3", 0.3 - 1e-16, "missed"),
        ("a >= 0.95", 0.95 - 1e-9, "missed"),
        ("a <= 100000", 100000 * (1 + 1e-13), "met"),
        ("a == 0", 1e-300, "met"),
    ],
)
def test_rounding_decides_nothing(text, value, state):
    assert decide_target(parse_target(text), reading(value), strict=False)[0] == state


levels = st.integers(-20, 20).map(lambda twentieths: twentieths / 20)


@st.composite
def readings(draw):
    lower, value, upper = sorted(draw(st.tuples(levels, levels, levels)))
    is_known = draw(st.booleans())
    return reading(value, lower if is_known else None, upper if is_known else None)


def mirror(item: BoundedValue) -> BoundedValue:
    return reading(
        -item.value,
        None if item.upper is None else -item.upper,
        None if item.lower is None else -item.lower,
        item.p_value,
    )


MIRRORED = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "==": "=="}


def target(relation: str, value: float, decide="point") -> Target:
    return parse_target(f"a {relation} {value}", decide=decide)


decisions = st.sampled_from(["point", "bound"])


@given(readings(), levels, st.sampled_from(sorted(MIRRORED)), decisions)
def test_mirrored_data_and_target_have_the_same_verdict(measured, limit, relation, decide):
    there = decide_target(target(relation, limit, decide), measured, strict=False)

    assert decide_target(target(MIRRORED[relation], -limit, decide), mirror(measured), strict=False) == there


@given(readings(), levels, st.sampled_from([(">=", "<"), ("<=", ">")]), decisions)
def test_a_target_and_its_opposite_are_never_both_met_nor_both_missed(measured, limit, relations, decide):
    states = [decide_target(target(relation, limit, decide), measured, strict=False)[0] for relation in relations]

    assert sorted(states) in (["met", "missed"], ["undecided", "undecided"])


@given(readings(), levels, levels, st.sampled_from([">=", ">", "<=", "<"]), decisions)
def test_a_tighter_target_is_never_easier(measured, item, other, relation, decide):
    loose, tight = sorted((item, other), reverse=relation.startswith("<"))
    order = ["missed", "undecided", "met"]
    easy, hard = (decide_target(target(relation, limit, decide), measured, strict=False) for limit in (loose, tight))

    assert order.index(hard[0]) <= order.index(easy[0])


@given(readings(), levels, st.sampled_from(sorted(MIRRORED)))
def test_requiring_proof_turns_verdicts_into_undecided_only(measured, limit, relation):
    """Asking for proof turns met or missed into undecided, and never one into the other; an equality waits for none."""
    by_estimate = decide_target(target(relation, limit), measured, strict=False)
    by_proof = decide_target(target(relation, limit), measured, strict=True)

    if relation == "==":
        assert by_proof == by_estimate
    else:
        assert by_proof[0] in (by_estimate[0], "undecided")
        assert by_estimate[1] == by_proof[1] == (by_proof[0] != "undecided")


# -- sentences of targets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "measured", "needed", "strict", "state", "reason"),
    [
        ("a >= 0.5", reading(0.6, 0.55, 0.65), None, False, "met", "one-sided bound 0.55 >= target 0.5"),
        ("a <= 0.5", reading(0.4, 0.35, 0.45), None, False, "met", "one-sided bound 0.45 <= target 0.5"),
        ("a >= 0.5", reading(0.4, 0.35, 0.45), None, False, "missed", "one-sided bound 0.45 < target 0.5"),
        ("a <= 0.5", reading(0.6, 0.55, 0.65), None, False, "missed", "one-sided bound 0.55 > target 0.5"),
        ("a == 0", reading(3, 1.2, 6), None, False, "missed", "one-sided bounds 1.2 and 6 exclude target 0"),
        ("a >= 0.95", reading(0.96, 0.88, 0.99), 1350, False, "met",
         "unproven: one-sided bound 0.88 < target 0.95; proof needs about n=1,350 at this estimate (80 % power)"),
        ("a >= 0.95", reading(0.95, 0.88, 0.99), None, False, "met", "unproven: one-sided bound 0.88 < target 0.95"),
        ("a >= 0.950", reading(0.96, 0.9499, 0.99), None, False, "met", "unproven: one-sided bound 0.9499 < target 0.950"),
        ("a <= 0.5", reading(0.4, 0.35, 0.55), None, False, "met", "unproven: one-sided bound 0.55 > target 0.5"),
        ("a >= 0.5", reading(0.6, None, None), None, False, "met", "unproven"),
        ("a >= 0.95", reading(0.94, 0.88, 0.99), 9, False, "missed",
         "unproven: one-sided bound 0.99 >= target 0.95; proof needs about n=9 at this estimate (80 % power)"),
        ("a >= 0.95", reading(0.96, 0.88, 0.99), 9, True, "undecided",
         "not proven either way: one-sided bounds 0.88 and 0.99, target 0.95; proof needs about n=9 at this estimate (80 % power)"),
        ("a >= 0.95", reading(0.96, 0.88, 0.99), None, True, "undecided",
         "not proven either way: one-sided bounds 0.88 and 0.99, target 0.95"),
        ("count(a) == 0", reading(0, 0, 2.9), None, False, "met", "0 of 50; the rate may be as high as 0.058"),
        ("count(a) == 0", reading(0, 0, 2.9), None, True, "met", "0 of 50; the rate may be as high as 0.058"),
        ("a == 0", reading(0, 0, 0.06), None, False, "met", "0 of 50; the rate may be as high as 0.06"),
        ("count(a) == 0", reading(1, 0.1, 4.7), None, True, "missed",
         "one-sided bounds 0.1 and 4.7 exclude target 0"),
        ("count(a) == 3", reading(2, 1.0, 4.0), None, True, "missed", "unproven: one-sided bounds 1 and 4, target 3"),
        ("count(a) == 0", reading(0, None, None), None, False, "met", "0 of 50"),
        ("a >= 0.5", reading(None), None, False, "undecided", "no sample was scored"),
    ],
)  # fmt: skip
def test_the_reason_of_a_target(text, measured, needed, strict, state, reason):
    decision = verdict(target_result(text, evidence(measured), needed=needed), strict=strict)

    assert (decision.state, decision.reason) == (state, reason)
    assert (decision.nodeid, decision.subject, decision.kind) == ("t.py::t", text, "target")
    assert not decision.suite_error


# -- comparisons --------------------------------------------------------------------------------------------------

COMPARED = [
    # alternative, value, adjusted p, ruling
    ("regression", -0.1, 0.01, ("missed", True)),
    ("regression", -0.1, 0.05, ("missed", True)),
    ("regression", -0.1, 0.0501, ("met", False)),
    ("regression", 0.1, 0.01, ("met", True)),
    ("regression", 0.1, 0.2, ("met", False)),
    ("regression", 0.0, 0.0, ("met", False)),
    ("regression", -0.1, None, ("undecided", False)),
    ("superior", 0.1, 0.01, ("undecided", False)),  # its lower bound is -1
    ("superior", 0.1, 0.2, ("undecided", False)),
    ("superior", -0.1, 0.2, ("undecided", False)),
    ("superior", -0.1, 0.01, ("missed", True)),
    ("superior", 0.1, None, ("undecided", False)),
]


@pytest.mark.parametrize(("alternative", "value", "p", "ruling"), COMPARED)
def test_a_comparison_without_a_margin_is_decided_by_its_p_value(alternative, value, p, ruling):
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative)

    assert decide_comparison(contrast, reading(value, -1, 1), both(p), alpha=ALPHA) == ruling


MARGINS = [
    # alternative, lower, upper: at a margin of 0.05
    ("non-inferior", -0.04, 0.02, ("met", True)),
    ("non-inferior", -0.06, 0.02, ("undecided", False)),
    ("non-inferior", -0.05, 0.02, ("undecided", False)),
    ("non-inferior", -0.09, -0.05, ("undecided", False)),
    ("non-inferior", -0.09, -0.06, ("missed", True)),
    ("non-inferior", 0.02, 0.09, ("met", True)),
    ("superior", 0.06, 0.09, ("met", True)),
    ("superior", 0.05, 0.09, ("undecided", False)),
    ("superior", 0.01, 0.09, ("undecided", False)),
    ("superior", -0.01, 0.04, ("missed", True)),
    ("equivalent", -0.04, 0.04, ("met", True)),
    ("equivalent", -0.05, 0.04, ("undecided", False)),
    ("equivalent", -0.04, 0.05, ("undecided", False)),
    ("equivalent", -0.09, 0.09, ("undecided", False)),
    ("equivalent", 0.06, 0.09, ("missed", True)),
    ("equivalent", -0.09, -0.06, ("missed", True)),
    ("equivalent", 0.01, 0.06, ("undecided", False)),
]


@pytest.mark.parametrize(("alternative", "lower", "upper", "ruling"), MARGINS)
def test_a_margin_is_decided_by_its_bounds(alternative, lower, upper, ruling):
    """The bounds decide, whatever the p-value."""
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative, margin=0.05)

    for p in (None, 0.0, 1.0):
        assert decide_comparison(contrast, reading(0.0, lower, upper), both(p), alpha=ALPHA) == ruling


@pytest.mark.parametrize("alternative", ["non-inferior", "superior", "equivalent"])
@pytest.mark.parametrize("measured", [reading(None), reading(0.1, None, 0.2), reading(0.1, -0.2, None)], ids=str)
def test_a_missing_bound_decides_no_margin(alternative, measured):
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative, margin=0.05)

    assert decide_comparison(contrast, measured, both(0.0), alpha=ALPHA) == ("undecided", False)


shares = st.floats(0, 1)


@given(readings(), shares, st.sampled_from(["regression", "superior"]))
def test_mirrored_arms_are_never_both_better_nor_both_worse(measured, p, alternative):
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative)
    there, back = (decide_comparison(contrast, entry, both(p), alpha=ALPHA) for entry in (measured, mirror(measured)))

    assert there[1] == back[1]
    if there[1]:
        assert {there[0], back[0]} == {"met", "missed"}


@given(readings(), st.sampled_from(["non-inferior", "superior", "equivalent"]))
def test_mirrored_arms_never_both_miss_a_margin_that_is_one_sided(measured, alternative):
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative, margin=0.05)
    there, back = (
        decide_comparison(contrast, entry, both(None), alpha=ALPHA)[0] for entry in (measured, mirror(measured))
    )

    if alternative == "equivalent":
        assert there == back
    if alternative == "non-inferior":
        assert (there, back) != ("missed", "missed")
    if alternative == "superior":
        assert (there, back) != ("met", "met")


@given(readings(), levels.map(abs), levels.map(abs), st.sampled_from(["non-inferior", "equivalent", "superior"]))
def test_a_narrower_margin_is_never_easier(measured, item, other, alternative):
    narrow, wide = sorted((item, other), reverse=alternative == "superior")
    order = ["missed", "undecided", "met"]
    easy, hard = (
        decide_comparison(
            Contrast(metric="a", baseline="v1", alternative=alternative, margin=margin), measured, None, alpha=ALPHA
        )[0]
        for margin in (wide, narrow)
    )

    if easy == "missed":
        assert hard != "met"
    if alternative != "equivalent":
        assert order.index(hard) <= order.index(easy)


@given(levels, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_only_the_adjusted_p_values_decide(value, p, alike, proof):
    contrast = Contrast(metric="a", baseline="v1")
    state, proven = decide_comparison(contrast, reading(value, p=p), AdjustedPValues(alike, proof), alpha=ALPHA)
    differs = alike <= ALPHA and value != 0

    assert (state == "missed") == (differs and value < 0)
    assert proven == (differs and proof <= ALPHA)


def test_arms_that_differ_are_missed_even_if_a_lower_mean_is_not_proven():
    contrast, worse = Contrast(metric="a", baseline="v1"), reading(-0.1, -0.2, 0.1)

    for proof in (0.3, None):
        adjusted = AdjustedPValues(alike=0.001, proof=proof)
        assert decide_comparison(contrast, worse, adjusted, alpha=ALPHA) == ("missed", False)


def test_too_few_groups_for_a_small_p_value_decide_nothing():
    contrast, worse = Contrast(metric="a", baseline="v1"), reading(-0.1, -0.2, 0.1)

    assert decide_comparison(contrast, worse, AdjustedPValues(0.125, None, 0.0625), alpha=ALPHA) == ("undecided", False)
    assert decide_comparison(contrast, worse, AdjustedPValues(0.125, None, 0.03), alpha=ALPHA) == ("met", False)


def test_superiority_has_its_proof_by_a_bound_of_zero():
    superior = Contrast(metric="a", baseline="v1", alternative="superior")

    assert decide_comparison(superior, reading(0.1, 0.01, 0.2), both(0.2), alpha=ALPHA) == ("met", True)
    assert decide_comparison(superior, reading(0.1, -0.01, 0.2), both(0.001), alpha=ALPHA) == ("undecided", False)


def test_the_two_families_are_adjusted_apart():
    """One comparison of two: its alikeness is adjusted to 0.04, its proof to 0.06."""
    both_p = replace(reading(-0.1), p_value=0.02, proof_p=0.03)
    verdict = verdicts(analysis(comparison(evidence(both_p))), family_size=2)[0]

    assert (verdict.state, verdict.proven) == ("missed", False)
    assert verdict.reason.startswith(
        "the replies of v2 and v1 differ (adjusted p = 0.040); v2's observed mean is lower"
    )


# -- the session's family -----------------------------------------------------------------------------------------


def regression(p: float | None, value=-0.1, **facts) -> Comparison:
    return comparison(evidence(reading(value, -0.3, 0.1, p)), **facts)


def adjusted_of(analyses: Sequence[Analysis], family_size: int) -> list[float | None]:
    return [each.comparisons[0].p_adjusted for each in adjust_p_values(analyses, family_size=family_size)]


def test_the_session_is_one_family():
    """0.03 and 0.04 are regressions each alone, and none together."""
    analyses = [analysis(regression(p), nodeid=f"t{k}") for k, p in enumerate((0.03, 0.04))]

    assert adjusted_of(analyses, 2) == [0.06, 0.06]
    assert [entry.state for entry in verdicts(*analyses)] == ["met", "met"]
    assert [verdicts(analysis)[0].state for analysis in analyses] == ["missed", "missed"]


def test_holm_steps_down():
    analyses = [analysis(regression(p), nodeid=f"t{k}") for k, p in enumerate((0.03, 0.001, 0.02))]

    assert adjusted_of(analyses, 3) == [0.04, 0.003, 0.04]
    assert [entry.state for entry in verdicts(*analyses)] == ["missed"] * 3


def drift_analysis(*measured: Comparison, nodeid="t.py::t") -> Analysis:
    drifts = tuple(Drift(arm="v1", run="r", alpha=0.05, comparison=entry) for entry in measured)
    outcome = SectionOutcome(result=drifts, claims=tuple(drift.claims(drifts)))
    return replace(analysis(nodeid=nodeid), sections={"drift": outcome})


def p_adjusted_of(item: Analysis) -> float | None:
    return item.sections["drift"].claims[0].p_adjusted


def is_proven(item: Analysis) -> bool:
    outcome = item.sections["drift"]
    [document] = drift.view(outcome.result, outcome.claims).document
    return document["proven"]


def test_drifts_are_one_family_of_the_session_and_cost_comparisons_nothing():
    """0.03 and 0.04 are drifts each alone, and none together."""
    adjusted = adjust_p_values(
        [drift_analysis(regression(0.03)), drift_analysis(regression(0.04), nodeid="t2")], family_size=0
    )

    assert [p_adjusted_of(entry) for entry in adjusted] == [0.06, 0.06]
    assert not any(map(is_proven, adjusted))
    assert is_proven(adjust_p_values([drift_analysis(regression(0.03))], family_size=0)[0])
    both = adjust_p_values([drift_analysis(regression(0.03)), analysis(regression(0.03))], family_size=1)
    assert both[1].comparisons[0].p_adjusted == 0.03


@pytest.mark.parametrize(
    ("worst", "best", "p_adjusted"),
    [
        # A drift, whatever the lost samples would have scored, of the least p.
        (reading(-0.2, p=0.001), reading(-0.05, p=0.02), 0.02),
        (reading(-0.2, p=0.001), reading(0.2, p=0.001), None),  # they could turn it around
        (reading(-0.2, p=0.001), reading(0.0, p=1.0), None),
        (reading(-0.2, p=None), reading(-0.1, p=0.001), None),
    ],
)
def test_a_drift_that_lost_samples_could_undo_is_not_proven(worst, best, p_adjusted):
    (adjust_p_value,) = adjust_p_values(
        [drift_analysis(comparison(evidence(reading(-0.1, p=0.01), worst, best), lost=9))], family_size=0
    )

    assert p_adjusted_of(adjust_p_value) == p_adjusted
    assert is_proven(adjust_p_value) is (p_adjusted is not None)


def test_comparisons_and_claims_of_sections_are_one_family_and_each_gets_its_own_p():
    small, large = Claim(subject="a", p_value=0.01, fails=True), Claim(subject="b", p_value=0.5, fails=True)
    analyses = [
        replace(analysis(regression(p), nodeid=f"t.py::{p}"), sections={"own": SectionOutcome(claims=(claim,))})
        for p, claim in ((0.02, large), (0.3, small))
    ]

    adjusted = adjust_p_values(analyses, family_size=4)

    assert [entry.comparisons[0].p_adjusted for entry in adjusted] == pytest.approx([0.06, 0.6])
    assert [entry.sections["own"].claims[0].p_adjusted for entry in adjusted] == pytest.approx([0.6, 0.04])


def test_a_comparison_that_was_not_measured_counts_in_the_family():
    item = analysis(regression(0.02))

    assert adjust_p_values([item], family_size=3)[0].comparisons[0].p_adjusted == pytest.approx(0.06)
    assert verdicts(item, family_size=2)[0].state == "missed"
    assert verdicts(item, family_size=3)[0].state == "met"


def test_a_comparison_without_pairs_counts_in_the_family():
    analyses = [analysis(regression(0.03), nodeid="a"), analysis(regression(None, None), nodeid="b")]
    assert adjusted_of(analyses, 2) == [0.06, None]
    assert [entry.state for entry in verdicts(*analyses)] == ["met", "undecided"]


p_values = st.one_of(st.floats(0, 1), st.floats(0, 0.06))


@given(st.lists(st.tuples(p_values, levels), min_size=1, max_size=8), st.integers(0, 5))
def test_a_p_value_above_alpha_after_the_correction_never_proves(pairs, more):
    analyses = [analysis(regression(p, value), nodeid=str(k)) for k, (p, value) in enumerate(pairs)]
    family_size = len(pairs) + more
    smallest = min(p for p, _ in pairs)

    given_verdicts = verdicts(*analyses, family_size=family_size)
    if smallest * family_size > ALPHA:
        assert not any(given_verdict.proven for given_verdict in given_verdicts)
    for item, (p, value) in zip(given_verdicts, pairs, strict=True):
        assert not (item.proven and p > ALPHA)
        assert item.state in ("met", "missed")
        assert not (item.state == "missed" and value >= 0)


def test_margins_are_not_adjusted_for_the_family():
    """Gates that must all pass need no correction: their bounds are those of alpha."""
    contrast = Contrast(metric="a", baseline="v1", alternative="non-inferior", margin=0.05)
    item = comparison(evidence(reading(0.0, -0.04, 0.04, 0.9)), contrast)

    assert verdict(item, family_size=1000).state == "met"


@pytest.mark.parametrize("alternative", ["non-inferior", "equivalent", "superior"])
def test_margins_do_not_count_in_the_family(alternative):
    """Nine margins of p-values below that of a regression: without them it is missed at 0.03, and with them too."""
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative, margin=0.05)
    margins = [comparison(evidence(reading(0.1, 0.06, 0.14, 0.001)), contrast) for _ in range(9)]

    adjusted = adjust_p_values([analysis(regression(0.03), *margins)], family_size=1)[0]

    assert [comparison.p_adjusted for comparison in adjusted.comparisons] == [0.03] + [None] * 9
    decided = decide_verdicts([adjusted], alpha=ALPHA, strict=False, family_size=1)
    assert decided[0].state == "missed"


# -- sentences of comparisons -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alternative", "value", "p", "state", "reason"),
    [
        ("regression", -0.1, 0.01, "missed", "a regression is proven"),
        ("regression", 0.1, 0.01, "met", "an improvement is proven"),
        ("regression", 0.1, 0.4, "met",
         "no regression is proven (differences down to -1.0 cannot be excluded); n=100 can detect differences of 0.124 or more; "
         "about n=1,500 would decide at this difference (80 % power)"),
        ("superior", 0.1, 0.4, "undecided", "no improvement is proven; about n=1,500 would decide at this difference (80 % power)"),
        ("superior", -0.1, 0.01, "missed", "a regression is proven"),
    ],
)  # fmt: skip
def test_the_reason_of_a_comparison(alternative, value, p, state, reason):
    contrast = Contrast(metric="a", baseline="v1", alternative=alternative)
    decision = verdict(comparison(evidence(reading(value, -0.3, 0.3, p)), contrast, needed=1500, detectable=0.1239))

    assert (decision.state, decision.reason, decision.kind) == (state, reason, "comparison")


@pytest.mark.parametrize(
    ("lower", "upper", "state", "reason"),
    [
        (-0.04, 0.02, "met", "one-sided bounds -0.04 and +0.02, margin 0.05"),
        (-0.09, -0.06, "missed", "one-sided bounds -0.09 and -0.06, margin 0.05"),
        (-0.09, 0.02, "undecided", "one-sided bounds -0.09 and +0.02, margin 0.05; about n=1,500 would decide at this difference "
         "(80 % power)"),
        (None, None, "undecided", "these data have no bound"),
    ],
)  # fmt: skip
def test_the_reason_of_a_margin(lower, upper, state, reason):
    contrast = Contrast(metric="a", baseline="v1", alternative="non-inferior", margin=0.05)
    decision = verdict(comparison(evidence(reading(-0.01, lower, upper, 0.5)), contrast, needed=1500))

    assert (decision.state, decision.reason) == (state, reason)
    assert decision.subject == "a: v2 vs v1 non-inferior by 0.05"


def test_the_reason_of_too_few_pairs():
    none = comparison(evidence(reading(None)))
    noted = replace(none, note="no sample was answered by both arms")

    assert (verdict(none).state, verdict(none).reason) == ("undecided", "too few pairs")
    assert verdict(noted).reason == "no sample was answered by both arms"


# -- lost ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "readings", "lost", "strict", "state", "proven", "reason"),
    [
        ("a >= 0.95", ((0.96, 0.9, 0.99), (0.93, 0.87, 0.97), (0.97, 0.91, 0.99)), 1, False, "undecided", False,
         "met on the scored samples; the 1 lost sample could make it missed"),
        ("a >= 0.95", ((0.96, 0.9, 0.99), (0.93, 0.87, 0.97), (0.97, 0.91, 0.99)), 1234, False, "undecided", False,
         "met on the scored samples; the 1,234 lost samples could make it missed"),
        ("a >= 0.95", ((0.94, 0.9, 0.97), (0.91, 0.86, 0.95), (0.96, 0.92, 0.98)), 2, False, "undecided", False,
         "missed on the scored samples; the 2 lost samples could make it met"),
        # Neither extreme makes it missed: it is no longer proven, and proof is required.
        ("a >= 0.95", ((0.97, 0.951, 0.99), (0.96, 0.94, 0.98), (0.98, 0.945, 0.99)), 3, True, "undecided", False,
         "met on the scored samples; the 3 lost samples could leave it open"),
        ("a >= 0.95", ((0.96, 0.951, 0.97), (0.955, 0.949, 0.96), (0.97, 0.96, 0.98)), 3, False, "met", False,
         "proven on the scored samples; the 3 lost samples could still overturn it"),
        ("a >= 0.95", ((0.99, 0.97, 1.0), (0.98, 0.96, 0.99), (0.99, 0.97, 1.0)), 1, False, "met", True,
         "one-sided bound 0.97 >= target 0.95"),
        # Two were counted, and four more may be: three are possible, though neither extreme is three.
        ("count(a) == 3", ((2, 1, 4), (2, 1, 4), (6, 4, 9)), 4, False, "undecided", False,
         "missed on the scored samples; the 4 lost samples could make it met"),
        ("count(a) == 7", ((2, 1, 4), (2, 1, 4), (6, 4, 9)), 4, False, "missed", False,
         "proven on the scored samples; the 4 lost samples could still overturn it"),
    ],
)  # fmt: skip
def test_lost_samples_may_take_a_verdict_or_a_proof_of_a_target(text, readings, lost, strict, state, proven, reason):
    decision = verdict(target_result(text, evidence(*(reading(*each) for each in readings)), lost=lost), strict=strict)

    assert (decision.state, decision.proven, decision.reason) == (state, proven, reason)


def test_lost_samples_without_bounds_leave_a_margin_open():
    contrast = Contrast(metric="a", baseline="v1", alternative="non-inferior", margin=0.05)
    unbounded = evidence(reading(0.0, -0.04, 0.04), reading(None), reading(None))

    assert verdict(comparison(unbounded, contrast, lost=1)).reason == (
        "met on the scored samples; the 1 lost sample could leave it open"
    )


def test_lost_samples_that_could_be_a_regression_leave_it_undecided():
    measured = evidence(reading(-0.02, p=0.2), reading(-0.2, p=0.001), reading(0.01, p=0.4))
    decision = verdict(comparison(measured, lost=12))

    assert decision.state == "undecided"
    assert decision.reason == "met on the scored samples; the 12 lost samples could make it missed"


def test_lost_samples_are_weighed_in_the_same_family():
    """Alone the worst reading would be a regression; in a family of ten it is none."""
    measured = evidence(reading(-0.02, p=0.2), reading(-0.2, p=0.01), reading(0.01, p=0.4))

    assert verdict(comparison(measured, lost=12)).state == "undecided"
    assert verdict(comparison(measured, lost=12), family_size=10).state == "met"


def test_an_improvement_that_lost_samples_could_undo_is_not_proven():
    measured = evidence(reading(0.1, p=0.01), reading(0.02, p=0.6), reading(0.2, p=0.001))
    decision = verdict(comparison(measured, lost=4))

    assert (decision.state, decision.proven) == ("met", False)
    assert decision.reason == (
        "an improvement is proven on the scored samples; the 4 lost samples could still overturn it"
    )


# -- what forbids a verdict ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"selected": 7}, "only 7 of 100 samples were selected"),
        ({"finished": False}, "sampling was interrupted; continue with --crucible-resume"),
    ],
)
def test_a_partial_selection_and_an_interrupted_experiment_are_undecided(facts, reason):
    results = [target_result("a >= 0.5", evidence(reading(0.9, 0.8, 1.0))), regression(0.0001)]

    for item in verdicts(analysis(*results, **facts)):
        assert (item.state, item.proven, item.reason) == ("undecided", False, reason)


def test_an_arm_without_any_result_is_not_to_be_resumed():
    stopped = replace(analysis(regression(0.0001), finished=False), unanswered=("v2",))

    assert [entry.reason for entry in verdicts(stopped)] == ["sampling stopped before the first result of v2"]


@pytest.mark.parametrize(
    ("claim", "kind", "subject"),
    [
        ({"targets": ["acuracy >= 0.5"]}, "target", "acuracy >= 0.5"),
        ({"contrasts": [Contrast(metric="acuracy", baseline="v1")]}, "comparison", "acuracy: v2 vs v1"),
    ],
)
def test_a_claim_on_a_metric_without_scores_is_an_error_in_the_suite(claim, kind, subject):
    decision = verdict(**claim)

    assert (decision.state, decision.suite_error, decision.kind, decision.subject) == ("undecided", True, kind, subject)
    assert decision.reason == "no sample has a number for 'acuracy' (scored: a)"


def test_a_slice_without_pairs_is_open_where_others_have_some():
    by = By((Field("topic"),))
    lost, whole = (
        replace(
            comparison(evidence(reading(None, p=None)), Contrast(metric="a", baseline="v1", by=by, slice=name)),
            pairs=pairs,
        )
        for name, pairs in (("law", 0), ("tax", 9))
    )

    assert [each.suite_error for each in verdicts(analysis(lost, whole))] == [False, False]
    assert [each.suite_error for each in verdicts(analysis(lost))] == [True]


@pytest.mark.parametrize("facts", [{"selected": 1}, {"finished": False}], ids=["selected", "interrupted"])
def test_a_metric_without_scores_is_no_error_before_all_samples_ran(facts):
    """The samples that would have scored it may not have been asked."""
    decision = verdict(targets=["a2 >= 0.5"], **facts)

    assert (decision.state, decision.suite_error) == ("undecided", False)


def test_each_target_and_comparison_has_one_verdict():
    results = [
        target_result("a >= 0.5", evidence(reading(0.9, 0.8, 1.0))),
        target_result("a < 2", evidence(reading(0.9, 0.8, 1.0))),
        regression(0.4),
    ]
    given_verdicts = verdicts(analysis(*results, targets=["b > 0"]), analysis(regression(0.2), nodeid="other"))

    assert [(given_verdict.nodeid, given_verdict.subject) for given_verdict in given_verdicts] == [
        ("t.py::t", "a >= 0.5"),
        ("t.py::t", "a < 2"),
        ("t.py::t", "b > 0"),
        ("t.py::t", "a: v2 vs v1"),
        ("other", "a: v2 vs v1"),
    ]


@pytest.mark.parametrize("relation", [">=", "<=", "<", ">"])
def test_an_infinite_bound_is_a_bound(relation):
    measured = reading(0.6, -math.inf, math.inf)

    assert decide_target(target(relation, 0.5), measured, strict=True) == ("undecided", False)
