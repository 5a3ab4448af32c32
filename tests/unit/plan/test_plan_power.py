"""Detectable effects before a run, with and without random factors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plan_builders import plan_of
from scipy.stats import nct, t

from pytest_crucible.plan.power import detectable_effects
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import (
    Arm,
    ArmTraining,
    Contrast,
    DetectableEffect,
    MetricFacts,
    Plan,
    PromptForm,
)
from pytest_crucible.stats import Source, detectable_over_sources, gaffke_bound, samples_over_sources

BINARY = MetricFacts(name="accuracy", kind="binary", low=0, high=1)
GRADED = MetricFacts(name="quality", kind="bounded", low=0, high=10)
TOKENS = MetricFacts(name="tokens", kind="unbounded", low=0)
SECONDS = MetricFacts(name="seconds", kind="positive", low=0, direction="lower")
Z = 1.959964  # normal quantile at 0.975
Z_HOLM_OF_5 = 2.575829  # at 0.995
Z_ONE_SIDED = 1.644854  # at 0.95
POWER = 0.841621  # at 0.80


def plan(*facts: MetricFacts, n: int, groups: int | None = None, margin: float | None = None, **claim) -> Plan:
    contrasts = tuple(Contrast(metric=fact.name, baseline="v1", margin=margin, **claim) for fact in facts)
    return plan_of("v2", "v1", n=n, groups=groups, metrics=facts, contrasts=contrasts, open_metrics=False)


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

    assert foresight.detectable == pytest.approx(0.0867, abs=5e-5)
    # By enumeration; the normal formula is 1.6 % off at 40 discordant pairs.
    assert foresight.detectable == pytest.approx(connor(200, Z), rel=0.02)
    assert (foresight.unit, foresight.assumption) == ("points", "the arms differ on 20 % of samples")


def test_comparisons_that_share_alpha_see_less():
    foresight = only(plan(BINARY, n=2000), family_size=5)

    assert foresight.detectable == pytest.approx(connor(2000, Z_HOLM_OF_5), rel=1e-6)


def test_a_margin_shares_no_alpha():
    margins = [only(plan(TOKENS, n=200, margin=3.0), family_size=size).detectable for size in (1, 5)]

    assert margins[0] == margins[1]


def test_a_metric_of_unknown_kind_is_taken_for_a_share():
    unknown = only(plan(MetricFacts(name="accuracy"), n=200))

    assert unknown.detectable == only(plan(BINARY, n=200)).detectable
    assert unknown.assumption == "the metric is binary and the arms differ on 20 % of samples"


def test_a_graded_score_is_foreseen_from_a_quarter_of_its_range():
    """(1.960 + 0.842) * 2.5 / sqrt(400) = 0.350; the t distribution adds a little."""
    foresight = only(plan(GRADED, n=400))

    assert foresight.detectable == pytest.approx(0.351, abs=5e-4)
    assert (foresight.unit, foresight.assumption) == ("", "differences have a standard deviation of 2.5")


@pytest.mark.parametrize("kind", ["unbounded", "count"])
@pytest.mark.parametrize("margin", [None, 3.0])
def test_of_a_score_without_a_range_nothing_is_foreseen_but_why(kind, margin):
    foresight = only(plan(replace(TOKENS, kind=kind), n=400, margin=margin))

    assert (foresight.detectable, foresight.needed) == (None, None)
    assert "declare bounds" in foresight.unprovable


def test_an_amount_is_foreseen_as_a_ratio():
    foresight = only(plan(SECONDS, n=400))
    few = only(plan(SECONDS, n=100))

    # (1.960 + 0.842) * 0.4 / sqrt(400)
    assert foresight.detectable == pytest.approx(0.056, abs=5e-4)
    assert few.detectable == pytest.approx(2 * foresight.detectable, rel=0.02)
    assert (foresight.unit, foresight.unprovable) == ("ratio", "")
    assert "0.4" in foresight.assumption


def test_a_margin_in_the_units_of_an_amount_cannot_be_foreseen():
    assert "declare bounds of 'seconds' or its reach, or write" in only(plan(SECONDS, n=400, margin=2.0)).unprovable


def test_a_margin_says_how_many_samples_it_needs():
    needed = only(plan(BINARY, n=50, margin=0.05)).needed

    by_the_data = ((Z_ONE_SIDED + POWER) * math.sqrt(0.2) / 0.05) ** 2
    # Tango's variance is that under the margin, which is a little larger.
    assert by_the_data < needed < 1.03 * by_the_data


@pytest.mark.parametrize("groups", [None, 60])
def test_a_margin_on_a_score_has_the_planned_power(groups):
    needed = only(plan(GRADED, n=60, groups=groups, margin=0.5)).needed
    runs = np.random.default_rng(1).normal(0, 2.5, (400, needed)).clip(-10, 10)
    proven = [gaffke_bound(run, end=-10.0, alpha=0.05, side="lower") > -0.5 for run in runs]

    assert 0.74 < np.mean(proven) < 0.86


def test_a_score_that_is_superior_by_a_margin_needs_more_than_a_test_of_a_difference_by_it():
    superior = only(plan(GRADED, n=200, margin=0.5, alternative="superior"))
    runs = np.random.default_rng(1).normal(superior.detectable, 2.5, (400, 200)).clip(-10, 10)
    proven = [gaffke_bound(run, end=-10.0, alpha=0.05, side="lower") > 0.5 for run in runs]

    assert superior.needed is None
    assert 0.74 < np.mean(proven) < 0.86


def test_an_improvement_is_planned_by_the_bound_that_decides_it():
    """Whatever the number of comparisons: it is no member of their family."""
    alone = only(plan(GRADED, n=20, alternative="superior"))
    runs = np.random.default_rng(1).normal(alone.detectable, 2.5, (400, 20)).clip(-10, 10)
    proven = [gaffke_bound(run, end=-10.0, alpha=0.05, side="lower") > 0 for run in runs]

    assert 0.7 < np.mean(proven) < 0.9
    assert only(plan(GRADED, n=20, alternative="superior"), family_size=9).detectable == alone.detectable


@pytest.mark.parametrize("facts", [BINARY, GRADED, SECONDS], ids=["yes or no", "scores", "amounts"])
def test_a_gate_detects_nothing_with_so_few_samples_that_no_p_value_of_theirs_is_small(facts):
    """The smallest one is 2 / 2^n: 0.06 with five samples, 0.008 with eight."""
    assert only(plan(facts, n=5)).detectable is None
    assert only(plan(facts, n=8), family_size=7).detectable is None
    assert only(plan(GRADED, n=8)).detectable is not None


def test_a_wide_margin_needs_what_its_bound_needs_at_least():
    """ln(0.05) / ln(0.95) = 58.4, and 299 for 0.01; a wide one is limited by the scatter."""
    assert only(plan(BINARY, n=50, margin=0.3)).needed == 18
    assert only(plan(BINARY, n=50, margin=0.9)).needed >= 2


def test_without_a_margin_no_number_is_needed():
    assert only(plan(BINARY, n=50)).needed is None


def test_a_cluster_counts_as_one_sample():
    grouped = only(plan(BINARY, n=1000, groups=200))

    assert grouped.detectable == pytest.approx(only(plan(BINARY, n=200)).detectable, rel=0.03)
    assert grouped.assumption == "the arms differ on 20 % of samples and a group changes as one"


def test_few_groups_are_planned_by_their_degrees_of_freedom():
    """d sqrt(G) / sqrt(d - d^2) is the shift of a noncentral t with G - 1 degrees of freedom, where all changes go one way."""
    d = only(plan(BINARY, n=240, groups=12)).detectable
    critical, shift = t.ppf(0.975, 11), d * math.sqrt(12) / math.sqrt(d - d * d)

    assert d > 0.2
    assert nct.sf(critical, 11, shift) + nct.cdf(-critical, 11, shift) == pytest.approx(0.8, abs=1e-6)


def test_a_difference_beyond_the_assumed_changes_is_one_in_which_all_go_one_way():
    foresight = only(plan(BINARY, n=12))

    assert foresight.detectable == pytest.approx(0.497, abs=1e-3)
    assert foresight.assumption == "the arms differ on 50 % of samples, all in one direction"


def test_a_candidate_that_equals_its_baseline_is_never_superior_by_a_margin():
    superior = plan(BINARY, n=200)
    contrast = Contrast(metric="accuracy", baseline="v1", alternative="superior", margin=0.02)
    (foresight,) = detectable_effects(replace(superior, contrasts=(contrast,)), alpha=0.05, family_size=1)

    assert foresight.needed is None
    assert foresight.detectable > 0.02


@pytest.mark.parametrize("facts", [BINARY, GRADED, SECONDS], ids=lambda facts: facts.name)
def test_one_sample_shows_nothing(facts):
    assert only(plan(facts, n=1)).detectable is None


def test_each_comparison_is_foreseen_in_turn():
    foresights = detectable_effects(plan(BINARY, TOKENS, n=100), alpha=0.05, family_size=2)

    assert [foresight.contrast.metric for foresight in foresights] == ["accuracy", "tokens"]


# -- relevant differences -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("groups", "facts"), [(None, BINARY), (None, GRADED), (30, BINARY), (30, GRADED), (None, SECONDS)]
)
def test_the_samples_that_resolve_a_relevant_difference_detect_it_and_prove_equal_arms_equivalent(groups, facts):
    claim = (
        {"relevant": 0.1, "is_relative": True} if facts is SECONDS else {"relevant": 0.05 * (facts.high - facts.low)}
    )
    needed = only(plan(facts, n=100, groups=groups, **claim)).needed
    limit = math.log(1.1) if facts is SECONDS else claim["relevant"]
    at_needed = only(plan(facts, n=needed, groups=None if groups is None else needed))
    margin = {"margin": claim["relevant"], "is_relative": facts is SECONDS, "alternative": "equivalent"}

    assert at_needed.detectable <= limit
    assert only(plan(facts, n=100, groups=groups, **margin)).needed <= needed
    # One family of many needs more to detect it.
    assert only(plan(facts, n=100, groups=groups, **claim), family_size=50).needed > needed


def test_a_relevant_difference_is_planned_as_yes_or_no_where_the_kind_is_not_known():
    expected, unknown = (only(plan(facts, n=100, relevant=0.02)) for facts in (BINARY, MetricFacts(name="accuracy")))

    assert unknown.needed == expected.needed > 1000
    assert only(plan(MetricFacts(name="m"), n=100, groups=20, relevant=0.02)).needed > 1000
    assert only(plan(MetricFacts(name="m"), n=100, relevant=2)).needed is None


def test_a_difference_that_rests_on_another_assumption_is_not_shown_beside_the_relevant_one():
    """Twenty samples detect 37 points if all changes go one way, which is not the 20 % that change here."""
    assert only(plan(BINARY, n=20)).detectable > 0.3
    assert only(plan(BINARY, n=20, relevant=0.02)).detectable is None
    assert "20 % of samples" in only(plan(BINARY, n=20, relevant=0.02)).assumption


def trained_arm(name, count):
    trainings = (ArmTraining(name=f"{name}-{seed}", seed=seed, identity=f"{name}{seed}") for seed in range(count))
    return Arm(name=name, role="candidate", adapter=name, identity=name, trainings=tuple(trainings))


def effect(facts=BINARY, compared="", *, rounds=1, prompts=0, trainings=(0, 0), n=1000, groups=None, fixed=(), **claim):
    plan = plan_of(
        n=n, groups=groups, repeats=rounds, rounds=rounds, fixed=fixed, metrics=(facts,), open_metrics=False,
        prompts=tuple(PromptForm(name=f"{k}", sha256=f"{k}") for k in range(prompts)),
        contrasts=(replace(parse_contrast(compared or facts.name, **claim), baseline="v1"),),
        arms=tuple(trained_arm(name, count) for name, count in zip(("v2", "v1"), trainings, strict=True)),
    )  # fmt: skip
    [planned] = detectable_effects(plan, alpha=0.05, family_size=1)
    return planned


def source(name, levels, deviation):
    return Source(name=name, levels=levels, dof=levels - 1, variance=deviation**2 / levels)


def test_rounds_are_assumed_to_differ_by_two_points():
    planned = effect(rounds=5)

    sources = [source("samples", 1000, 0.2**0.5), source("rounds", 5, 0.02)]
    assert planned.detectable == pytest.approx(detectable_over_sources(sources, measured=False))
    assert planned.detectable > effect(rounds=5, fixed=("rounds",)).detectable
    assert planned.assumption == (
        "the arms differ on 20 % of samples and their difference has a standard deviation of 2 points between rounds"
    )


def test_trainings_of_each_arm_are_a_source_of_their_own():
    planned = effect(trainings=(4, 3))

    sources = [source("samples", 1000, 0.2**0.5), source("a", 4, 0.02), source("b", 3, 0.02)]
    assert planned.detectable == pytest.approx(detectable_over_sources(sources, measured=False), rel=0.01)
    assert "between trainings" in planned.assumption


def test_the_noise_is_a_share_of_the_range():
    planned = effect(GRADED, prompts=5, rounds=3, n=50, groups=10)

    sources = [source("samples", 10, 2.5), source("prompts", 5, 0.2), source("rounds", 3, 0.2)]
    assert planned.detectable == pytest.approx(detectable_over_sources(sources, measured=False))
    assert planned.assumption == (
        "differences have a standard deviation of 2.5, a group changes as one, and their difference has a standard deviation of "
        "0.2 between prompts and between rounds"
    )


def test_a_margin_needs_levels_before_it_needs_samples():
    """No bound over k levels is nearer to the mean than 1 - alpha^(1 / k) of the range below it."""
    planned = effect(rounds=60, margin=0.15, n=50)

    assert planned.needed > effect(rounds=60, margin=0.15, n=50, fixed=("rounds",)).needed
    assert planned.needed > effect(rounds=200, margin=0.15, n=50).needed
    assert effect(rounds=10, margin=0.15).unprovable == (
        "10 rounds are too few for a margin of 0.15, however many samples there are"
    )


def test_an_improvement_is_planned_by_its_bound():
    three, ten, thirty = (effect(prompts=k, alternative="superior") for k in (3, 10, 30))

    assert three.unprovable == "3 prompts are too few to prove an improvement of others like them"
    assert ten.detectable > 1 / 0.05 ** (1 / 10) - 1 > 3 * effect(prompts=10).detectable
    assert thirty.detectable < ten.detectable / 2


def test_two_levels_show_nothing():
    assert effect(rounds=2).unprovable == "no verdict with 2 rounds"
    assert effect(trainings=(3, 2)).unprovable == "no verdict with 2 trainings"


def test_a_ratio_has_no_such_interval():
    seconds = MetricFacts(name="seconds", kind="positive", low=0.0, direction="lower")

    assert effect(seconds, rounds=3).unprovable.endswith("has no interval that counts rounds")


def test_a_metric_that_is_not_known_yet_is_planned_as_yes_or_no():
    planned = effect(MetricFacts(name="ok"), rounds=5)

    assert planned.detectable == pytest.approx(effect(rounds=5).detectable)
    assert planned.assumption.startswith(
        "the metric is binary, the arms differ on 20 % of samples and their difference"
    )


def test_a_metric_without_bounds_is_no_proof_with_factors_either():
    tokens = MetricFacts(name="tokens", kind="unbounded")

    assert effect(tokens, rounds=3, margin=5.0).unprovable == effect(tokens, margin=5.0).unprovable != ""


def test_a_relevant_difference_needs_samples_to_detect_it_and_to_prove_none():
    planned = effect(rounds=60, relevant=0.15, n=50)

    sources = [source("samples", 50, 0.2**0.5), source("rounds", 60, 0.02)]
    assert planned.needed > samples_over_sources(sources, 0.15, alpha=0.025, measured=False)
    assert planned.needed > effect(rounds=60, margin=0.15, n=50).needed
    assert effect(rounds=3, relevant=0.02).unprovable == (
        "3 rounds are too few for a relevant difference of 0.02, however many samples there are"
    )
