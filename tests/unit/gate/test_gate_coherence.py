"""All claims on one data set: none contradicts another, and what changes nothing in the data changes no verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from answer_builders import score_column
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_gate_verdicts import verdict

from pytest_crucible.analyse.comparisons import compare_means
from pytest_crucible.records import Comparison, Contrast, MetricFacts, Verdict

FACTS = MetricFacts(name="a", kind="bounded", low=0.0, high=1.0)
MARGINS = st.sampled_from([0.01, 0.02, 0.05, 0.1, 0.2, 0.3])


@dataclass(frozen=True)
class Data:
    """Scores of two arms on the same samples, between 0 and 1."""

    candidate: np.ndarray
    baseline: np.ndarray
    clusters: np.ndarray | None = None
    facts: MetricFacts = FACTS


def decide(data: Data, **claim) -> tuple[Verdict, Comparison]:
    contrast = Contrast(metric="a", baseline="v1", **claim)
    pair = score_column(data.candidate, data.facts), score_column(data.baseline, data.facts)
    compared = compare_means(contrast, data.facts, "v2", pair, data.clusters, alpha=0.05, family_size=1)
    return verdict(compared), compared


def state(data: Data, **claim) -> str:
    return decide(data, **claim)[0].state


CLAIMS = [
    {},
    {"alternative": "superior"},
    {"alternative": "superior", "margin": 0.02},
    {"alternative": "non-inferior", "margin": 0.05},
    {"alternative": "equivalent", "margin": 0.1},
    {"relevant": 0.05},
]


@st.composite
def data_sets(draw, binary=True):
    """Small steps, equal differences, rare collapses, skewed ones: shapes on which t and bounds part."""
    n, seed = draw(st.integers(2, 80)), draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    baseline = rng.integers(0, 65, n) / 64
    shape = draw(st.sampled_from(["equal", "rare", "steps", "smooth", "all"]))
    shift = draw(st.sampled_from([-8, -2, -1, 0, 1, 2, 8])) / 64
    change = {
        "equal": np.full(n, shift),
        "rare": np.where(rng.random(n) < 0.05, -0.8, shift),
        "steps": rng.integers(-3, 4, n) / 64 + shift,
        "smooth": rng.normal(shift, 0.1, n),
        "all": rng.uniform(-1, 1, n) + shift,
    }[shape]
    clusters = rng.integers(0, max(n // 3, 1), n) if draw(st.booleans()) else None
    candidate = np.clip(baseline + change, 0, 1)
    if not binary or draw(st.booleans()):
        return Data(candidate, baseline, clusters)
    yes_or_no = replace(FACTS, kind="binary")
    return Data((candidate >= 0.5).astype(float), (baseline >= 0.5).astype(float), clusters, yes_or_no)


@given(data_sets(), MARGINS)
@settings(deadline=None)
def test_superior_by_a_margin_is_superior_and_superior_is_not_inferior(data, margin):
    if state(data, alternative="superior", margin=margin) == "met":
        assert state(data, alternative="superior") == "met"
    if state(data, alternative="superior") == "met":
        assert state(data, alternative="non-inferior", margin=margin) == "met"
        assert state(data) == "met"


@given(data_sets(), MARGINS)
@settings(deadline=None)
def test_equivalent_is_not_inferior_on_either_side(data, margin):
    if state(data, alternative="equivalent", margin=margin) == "met":
        mirrored = replace(data, candidate=data.baseline, baseline=data.candidate)

        assert state(data, alternative="non-inferior", margin=margin) == "met"
        assert state(mirrored, alternative="non-inferior", margin=margin) == "met"


@given(data_sets(), MARGINS, MARGINS, st.sampled_from(["non-inferior", "equivalent"]))
@settings(deadline=None)
def test_a_tighter_margin_never_turns_met(data, margin, other, alternative):
    tight, wide = sorted((margin, other))
    if state(data, alternative=alternative, margin=tight) == "met":
        assert state(data, alternative=alternative, margin=wide) == "met"


@given(data_sets(binary=False), st.sampled_from(CLAIMS), st.integers(0, 99))
@settings(deadline=None)
def test_noise_that_no_score_shows_changes_no_verdict(data, claim, seed):
    rng = np.random.default_rng(seed)
    noisy = replace(data, candidate=np.clip(data.candidate + rng.normal(0, 1e-6, data.candidate.size), 0, 1))
    before, compared = decide(data, **claim)
    after, compared_after = decide(noisy, **claim)
    # A number that is on the limit itself may fall on either side of it.
    near = [compared.p_value, compared.proof_p]
    assume(all(p is None or abs(p - 0.05) > 1e-3 for p in near))
    limits = (0.0, 0.02, 0.05, 0.1)
    ends = [end for end in (compared.evidence.observed.lower, compared.evidence.observed.upper) if end is not None]
    assume(all(abs(abs(end) - limit) > 1e-4 for end in ends for limit in limits))
    assume(compared.difference is None or compared.difference == 0 or abs(compared.difference) > 1e-5)

    assert (after.state, after.proven) == (before.state, before.proven)
    assert compared_after.difference == pytest.approx(compared.difference, abs=1e-5)


@given(data_sets(binary=False), st.sampled_from(CLAIMS), st.sampled_from([0.01, 7.0, 100.0]))
@settings(deadline=None)
def test_another_unit_changes_no_verdict(data, claim, unit):
    scaled = {name: value * unit if name in ("margin", "relevant") else value for name, value in claim.items()}
    other = Data(data.candidate * unit, data.baseline * unit, data.clusters, replace(FACTS, high=unit))
    before, after = decide(data, **claim), decide(other, **scaled)
    ends = [end for end in (before[1].evidence.observed.lower, before[1].evidence.observed.upper) if end is not None]
    assume(all(abs(abs(end) - limit) > 1e-9 for end in ends for limit in (0.0, 0.02, 0.05, 0.1)))

    assert (after[0].state, after[0].proven) == (before[0].state, before[0].proven)


@given(data_sets(), st.sampled_from(CLAIMS))
@settings(deadline=None)
def test_a_mirrored_metric_changes_no_verdict(data, claim):
    mirrored = Data(1 - data.candidate, 1 - data.baseline, data.clusters, replace(data.facts, direction="lower"))
    before, after = decide(data, **claim), decide(mirrored, **claim)
    ends = [end for end in (before[1].evidence.observed.lower, before[1].evidence.observed.upper) if end is not None]
    assume(all(abs(abs(end) - limit) > 1e-9 for end in ends for limit in (0.0, 0.02, 0.05, 0.1)))

    assert (after[0].state, after[0].proven) == (before[0].state, before[0].proven)


@given(data_sets(), st.sampled_from(CLAIMS))
@settings(deadline=None)
def test_the_interval_agrees_with_every_claim_about_the_mean(data, claim):
    decided, compared = decide(data, **claim)
    interval = compared.interval
    if interval is None:
        assert not decided.proven
        return
    limit = compared.contrast.limit or 0.0
    if claim.get("alternative") == "equivalent":
        assert (decided.state == "met") == (-limit < interval.low and interval.high < limit)
    elif claim.get("alternative") == "superior":
        assert (decided.state == "met") == (interval.low > limit)
    elif claim.get("margin"):
        assert (decided.state == "met") == (interval.low > -limit)
        assert (decided.state == "missed") == (interval.high < -limit)
    elif decided.proven:
        assert interval.low > (-limit if decided.state == "met" and limit else 0.0) or interval.high < 0.0


@given(data_sets(), MARGINS)
@settings(deadline=None)
def test_a_margin_and_a_relevant_difference_exclude_the_same_regressions(data, limit):
    relevant = decide(data, relevant=limit)[0]

    assert (state(data, alternative="non-inferior", margin=limit) == "met") == (
        (relevant.state, relevant.proven) == ("met", True)
    )


@given(data_sets(), st.sampled_from([*CLAIMS, {"alternative": "superior", "margin": 0.2}]))
@settings(deadline=None)
def test_an_undecided_claim_needs_more_samples_than_it_had(data, claim):
    decided, compared = decide(data, **claim)

    if decided.state == "undecided" and compared.needed is not None:
        assert compared.needed > compared.pairs


@pytest.mark.parametrize("facts", [FACTS, replace(FACTS, kind="binary")], ids=["scores", "yes or no"])
def test_five_samples_are_too_few_for_a_gate_whatever_the_metric(facts):
    few = Data(np.zeros(5), np.ones(5), facts=facts)
    decided, compared = decide(few)

    assert (decided.state, compared.detectable) == ("undecided", None)
    assert decided.reason == ("5 samples are too few to show that the arms differ: no p-value of theirs is below 0.062")
    # Six are enough.
    assert state(Data(np.zeros(6), np.ones(6), facts=facts)) == "missed"


def test_a_few_samples_that_are_all_better_are_not_worse_by_any_margin():
    """11 yes-or-no pairs, 6 of them better: superior, so not inferior, although 11 equal ones would prove no margin of 0.02."""
    better = Data(np.repeat([1.0, 0.0], [6, 5]), np.zeros(11), facts=replace(FACTS, kind="binary"))
    equal = replace(better, candidate=np.zeros(11))

    assert state(better, alternative="superior") == state(better, alternative="non-inferior", margin=0.02) == "met"
    assert state(equal, alternative="non-inferior", margin=0.02) == "undecided"


@pytest.mark.parametrize("claim", [{"alternative": "superior"}, {"alternative": "non-inferior", "margin": 0.05}])
def test_no_number_of_samples_proves_a_mean_without_ends(claim):
    endless = MetricFacts(name="a", kind="unbounded")
    better = np.random.default_rng(1).normal(0.3, 1.0, 40)
    decided, compared = decide(Data(better, np.zeros(40), facts=endless), **claim)

    assert (decided.state, compared.needed) == ("undecided", None)
    assert "nothing is proven about a difference of means without bounds: declare bounds of 'a'" in decided.reason


def test_equal_differences_are_no_special_case():
    """20 differences of exactly -1/64, and the same with noise that no score shows: p was .73, and 1.6e-61."""
    baseline = np.linspace(0.2, 0.8, 20)
    exact = Data(baseline - 1 / 64, baseline)
    noisy = replace(exact, candidate=exact.candidate + np.random.default_rng(0).normal(0, 1e-5, 20))

    for data in (exact, noisy):
        decided, compared = decide(data)
        assert (decided.state, decided.proven) == ("missed", False)
        assert compared.p_value == 1e-4
        assert decided.reason == (
            "the replies of v2 and v1 differ (permutation p = 1e-04); v2's observed mean is lower; "
            "that the mean is lower is not proven"
        )
