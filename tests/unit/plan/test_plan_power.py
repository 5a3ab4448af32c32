"""What a run can show, before it is paid for. The numbers are worked out beside the tests."""

from __future__ import annotations

import math

import pytest

from pytest_crucible.plan.power import detectable_effects
from pytest_crucible.records import Arm, Contrast, DetectableEffect, Fingerprint, MetricFacts, Plan

BINARY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)
GRADED = MetricFacts(name="quality", kind="bounded", low=0, high=10)
TOKENS = MetricFacts(name="tokens", kind="unbounded", low=0)
Z = 1.959964  # normal quantile at 0.975
Z_HOLM_OF_5 = 2.575829  # at 0.995
Z_ONE_SIDED = 1.644854  # at 0.95
POWER = 0.841621  # at 0.80


def plan(*facts: MetricFacts, n: int, groups: int | None = None, margin: float | None = None) -> Plan:
    arms = (
        Arm(name="v2", role="candidate", adapter="v2", identity="b"),
        Arm(name="v1", role="baseline", adapter="v1", identity="a"),
    )
    return Plan(
        nodeid="test_x.py::test_x",
        path="test_x.py",
        line=1,
        dataset="sums",
        dataset_sha256="",
        planned=n,
        selected=n,
        groups=groups,
        repeats=1,
        arms=arms,
        metrics=facts,
        targets=(),
        contrasts=tuple(Contrast(metric=one.name, baseline="v1", margin=margin) for one in facts),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
        open_metrics=False,
    )


def only(planned: Plan, *, alpha: float = 0.05, family_size: int = 1) -> DetectableEffect:
    (foresight,) = detectable_effects(planned, alpha=alpha, family_size=family_size)
    return foresight


def connor(n: int, z: float) -> float:
    """The d of `sqrt(n) d = z sqrt(0.2) + POWER sqrt(0.2 - d^2)` (Connor 1987), by insertion."""
    d = 0.1
    for _ in range(50):
        d = (z * math.sqrt(0.2) + POWER * math.sqrt(0.2 - d * d)) / math.sqrt(n)
    return d


def test_a_share_is_foreseen_from_a_fifth_of_the_answers_changing():
    foresight = only(plan(BINARY, n=200))

    assert foresight.detectable == pytest.approx(0.0881, abs=5e-5)
    assert foresight.detectable == pytest.approx(connor(200, Z), rel=1e-6)
    assert (foresight.unit, foresight.assumption) == ("points", "the arms differ on 20 % of samples")


def test_comparisons_that_share_alpha_see_less():
    foresight = only(plan(BINARY, n=200), family_size=5)

    assert foresight.detectable == pytest.approx(connor(200, Z_HOLM_OF_5), rel=1e-6)


def test_a_metric_of_unknown_kind_is_taken_for_a_share():
    unknown = only(plan(MetricFacts(name="accuracy"), n=200))

    assert unknown.detectable == only(plan(BINARY, n=200)).detectable
    assert unknown.assumption == "the metric is binary and the arms differ on 20 % of samples"


def test_a_graded_score_is_foreseen_from_a_quarter_of_its_range():
    """(1.960 + 0.842) * 2.5 / sqrt(400) = 0.350; the t distribution adds a little."""
    foresight = only(plan(GRADED, n=400))

    assert foresight.detectable == pytest.approx(0.351, abs=5e-4)
    assert (foresight.unit, foresight.assumption) == ("", "differences have a standard deviation of 2.5")


def test_a_score_without_a_range_is_foreseen_in_units_of_its_spread():
    """(1.960 + 0.842) / sqrt(400) = 0.140."""
    foresight = only(plan(TOKENS, n=400))

    assert foresight.detectable == pytest.approx(0.140, abs=5e-4)
    assert (foresight.unit, foresight.assumption) == ("standard deviations", "")


def test_a_margin_says_how_many_samples_it_needs():
    needed = only(plan(BINARY, n=50, margin=0.05)).needed

    assert needed == math.ceil(((Z_ONE_SIDED + POWER) * math.sqrt(0.2) / 0.05) ** 2)


def test_a_margin_on_a_score_pays_for_the_two_pseudo_observations():
    """n is where n samples with a variance of 2.5^2 + 2 * 10^2 / n decide."""
    needed = only(plan(GRADED, n=50, margin=0.5)).needed
    factor = ((Z_ONE_SIDED + POWER) / 0.5) ** 2

    assert needed - 1 < factor * (2.5**2 + 200 / needed) <= needed


def test_a_wide_margin_needs_what_its_bound_needs_at_least():
    """ln(0.05) / ln(0.7) = 8.4, where the variance alone asks for (2.486 * 0.447 / 0.3)^2 = 13.7."""
    assert only(plan(BINARY, n=50, margin=0.3)).needed == 14
    assert only(plan(BINARY, n=50, margin=0.9)).needed == 2


def test_a_margin_on_a_score_without_a_range_cannot_be_foreseen():
    assert only(plan(TOKENS, n=50, margin=3.0)).needed is None


def test_without_a_margin_no_number_is_needed():
    assert only(plan(BINARY, n=50)).needed is None


def test_a_cluster_counts_as_one_sample():
    assert only(plan(BINARY, n=1000, groups=200)).detectable == only(plan(BINARY, n=200)).detectable


@pytest.mark.parametrize("facts", [BINARY, GRADED, TOKENS], ids=lambda facts: facts.name)
def test_one_sample_shows_nothing(facts):
    assert only(plan(facts, n=1)).detectable is None


def test_each_comparison_is_foreseen_in_turn():
    foresights = detectable_effects(plan(BINARY, TOKENS, n=100), alpha=0.05, family_size=2)

    assert [foresight.contrast.metric for foresight in foresights] == ["accuracy", "tokens"]
