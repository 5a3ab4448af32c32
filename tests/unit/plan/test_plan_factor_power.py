"""The detectable difference of a run with random factors, before any request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_crucible.plan.power import detectable_effects
from pytest_crucible.plan.targets import parse_contrast
from pytest_crucible.records import Arm, ArmTraining, Fingerprint, MetricFacts, Plan, PromptForm
from pytest_crucible.stats import Source, detectable_over_sources, samples_over_sources

BINARY = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
GRADED = MetricFacts(name="quality", kind="bounded", low=0.0, high=10.0)


def trained_arm(name, count):
    trainings = (ArmTraining(name=f"{name}-{seed}", seed=seed, identity=f"{name}{seed}") for seed in range(count))
    return Arm(name=name, role="candidate", adapter=name, identity=name, trainings=tuple(trainings))


def effect(facts=BINARY, compared="", *, rounds=1, prompts=0, trainings=(0, 0), n=1000, groups=None, fixed=(), **claim):
    plan = Plan(
        nodeid="t.py::t", path="t.py", line=1, dataset="d", dataset_sha256="d", planned=n, selected=n, groups=groups,
        repeats=rounds, rounds=rounds, fixed=fixed, metrics=(facts,), targets=(), open_metrics=False,
        prompts=tuple(PromptForm(name=f"{k}", sha256=f"{k}") for k in range(prompts)),
        contrasts=(replace(parse_contrast(compared or facts.name, **claim), baseline="v1"),),
        arms=tuple(trained_arm(name, count) for name, count in zip(("v2", "v1"), trainings, strict=True)),
        fingerprint=Fingerprint(dataset="", function="", metrics="", sampling=""),
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
