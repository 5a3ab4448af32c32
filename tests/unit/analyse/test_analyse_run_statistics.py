"""A/A tests, trends, the winner's estimate, and the samples that a next run needs."""

from __future__ import annotations

import numpy as np
import pytest
from answer_builders import UNSCORED, analysis_inputs, reply_rows, score_column
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_crucible.analyse.members import MemberValues, correct_winner
from pytest_crucible.analyse.next_run import samples_to_decide
from pytest_crucible.analyse.run_statistics import RunScores, aa_tests, trend
from pytest_crucible.measures.means import compare_means, samples_to_prove_mean
from pytest_crucible.measures.row import Difference, Prepared
from pytest_crucible.records import AATest, ArmOutcomes, Contrast, MetricFacts
from pytest_crucible.stats import winner_from_values


def arm(values: np.ndarray) -> ArmOutcomes:
    """Scores of samples x repeats; NaN was never scored."""
    return reply_rows([[UNSCORED if np.isnan(value) else value for value in row] for row in values])


def dealt(*arms: ArmOutcomes, samples: int, **fields) -> tuple[AATest, ...]:
    return aa_tests(analysis_inputs(*arms, n=samples, **fields), alpha=0.05, replicates=50, seed=1)


RNG = np.random.default_rng(5)
SCORES = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)


def test_one_arm_without_repeats_offers_nothing():
    assert dealt(arm(RNG.random((20, 1))), samples=20) == ()


def test_repeats_of_each_arm_and_each_pair_of_arms_are_dealt():
    analysis = dealt(*(arm(RNG.random((20, 3))) for _ in range(3)), samples=20, repeats=3, metrics=[SCORES])

    assert [entry.dealt for entry in analysis] == [
        "v2, 3 repeats", "v1, 3 repeats", "v0, 3 repeats",
        "v2 and v1, swapped", "v2 and v0, swapped", "v1 and v0, swapped",
    ]  # fmt: skip
    assert {entry.method for entry in analysis} == {"sign flips"}
    assert all(entry.holds for entry in analysis)


def test_samples_that_lack_a_score_are_left_out_and_counted():
    values = RNG.random((20, 2))
    values[3, 1] = values[7, 0] = np.nan

    (item,) = dealt(arm(values), samples=20, repeats=2, metrics=[SCORES])

    assert (item.samples, item.left_out) == (18, 2)


def test_too_few_whole_samples_are_said_and_not_tried():
    values = np.full((20, 2), np.nan)
    values[0] = 0.5

    (item,) = dealt(arm(values), samples=20, repeats=2, metrics=[SCORES])

    assert (item.rate, item.holds, item.samples) == (None, None, 1)
    assert "fewer than two samples" in item.note


@pytest.mark.parametrize(("groups", "answered"), [(10, True), (4, False)])
def test_groups_are_honoured(groups, answered):
    labels = [f"g{i % groups}" for i in range(20)]

    (item,) = dealt(arm(RNG.random((20, 2))), samples=20, repeats=2, groups=labels, metrics=[SCORES])

    assert (item.clusters, item.method) == (groups, "sign flips")
    assert (item.rate is not None) == answered
    assert bool(item.note) != answered


RIGHT = MetricFacts(name="right", kind="binary", low=0.0, high=1.0)
N = 100


def run_scores(right: int, *, lost: int = 0, dataset: str = "d") -> RunScores:
    """So many of a hundred samples right, the first ones, but that so many of these are lost."""
    values = np.repeat([1.0, 0.0], [right, N - right])
    values[:lost] = np.nan
    scores = score_column(values, RIGHT)
    return RunScores(run=f"r{right}", started="", arm="v2", dataset=dataset, scores=scores, clusters=None)


def changes(*runs: RunScores) -> list[str]:
    return [entry.change for entry in trend(RIGHT, runs, alpha=0.05)]


def test_a_change_begins_a_stretch_with_the_first_run_that_is_proven_to_differ():
    runs = map(run_scores, (50, 51, 80, 81, 50))

    assert changes(*runs) == ["", "", "proven", "", "proven"]


def test_all_pairs_of_runs_share_alpha():
    """5 of 100 more right is p = 0.025, which proves something of two runs and nothing of four."""
    assert changes(run_scores(50), run_scores(55)) == ["", "proven"]
    assert changes(run_scores(50), run_scores(50), run_scores(50), run_scores(55)) == ["", "", "", ""]


def test_intervals_hold_together():
    alone, among = (trend(RIGHT, [run_scores(50)] * count, alpha=0.05)[0].estimate.interval for count in (1, 5))

    assert alone.level == 0.95
    assert among.level == pytest.approx(0.99)
    assert among.low < alone.low


def test_what_was_lost_can_only_make_a_change_uncertain():
    """Ten more are right, and of those that were right before some are lost."""
    assert changes(run_scores(50), run_scores(60)) == ["", "proven"]
    assert changes(run_scores(50), run_scores(60, lost=20)) == ["", ""]
    assert trend(RIGHT, [run_scores(60, lost=20)], alpha=0.05)[0].estimate.lost == 20


def test_other_samples_are_no_change_of_the_metric():
    others = [run_scores(90, dataset="e")] * 2

    assert changes(run_scores(50), *others) == ["", "other samples", ""]


ALPHA = 0.05
CLAIMS = [
    {},
    {"margin": 0.02},
    {"margin": 0.1},
    {"alternative": "superior"},
    {"alternative": "superior", "margin": 0.05},
    {"alternative": "equivalent", "margin": 0.05},
    {"relevant": 0.05},
]


def difference_of(kind: str, seed: int, size: int, groups: int | None, effect: float) -> Difference | None:
    rng = np.random.default_rng(seed)
    old = rng.random(size)
    new = np.clip(old + effect + rng.normal(0, 0.1, size) - (rng.random(size) < 0.05), 0, 1)
    if kind == "binary":
        old, new = (old > 0.3).astype(float), (new > 0.3).astype(float)
    clusters = None if groups is None else rng.permutation(np.arange(size) % groups)
    arms = (Prepared(values=values, kind=kind, bounds=(0.0, 1.0), clusters=clusters) for values in (new, old))
    return compare_means(*arms, ALPHA)


def decides(difference: Difference, contrast: Contrast) -> bool:
    """Return whether the bounds, or without a margin the test, already settle the claim."""
    low, high = difference.lower, difference.upper
    margin = contrast.limit
    if margin is None:
        # An improvement is proven by its bound, and missed as by a gate.
        improved = contrast.alternative == "superior" and low is not None and low > 0
        is_gate = contrast.alternative != "superior" or difference.value < 0
        return improved or (is_gate and difference.p_value is not None and difference.p_value <= ALPHA)
    if low is None or high is None:
        return False
    if contrast.alternative == "superior":
        return low > margin or high < margin
    if contrast.alternative == "equivalent":
        return (low > -margin and high < margin) or low > margin or high < -margin
    return low > -margin or high < -margin or (contrast.relevant is not None and difference.p_value <= ALPHA)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(["binary", "bounded"]),
    st.integers(0, 10**6),
    st.integers(20, 300),
    st.sampled_from([None, 6, 12, 20]),
    st.sampled_from([-0.2, -0.05, 0.0, 0.03, 0.1]),
    st.sampled_from(CLAIMS),
)
def test_an_undecided_comparison_needs_more_than_it_had(kind, seed, size, groups, effect, claim):
    difference = difference_of(kind, seed, size, groups, effect)
    contrast = Contrast(metric="m", baseline="v1", **claim)
    assume(difference is not None and not decides(difference, contrast))

    needed = samples_to_decide(difference, contrast, alpha=ALPHA, family_size=1)

    assert needed is None or needed > size


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["binary", "bounded"]), st.integers(0, 10**6), st.integers(5, 300), st.floats(0.01, 0.99))
def test_an_unproven_target_needs_more_than_it_had(kind, seed, size, share):
    from pytest_crucible.measures.means import bound_mean

    values = np.random.default_rng(seed).random(size)
    values = (values > 0.3).astype(float) if kind == "binary" else values
    prepared = Prepared(values=values, kind=kind, bounds=(0.0, 1.0))
    reading, _ = bound_mean(prepared, ALPHA)
    limit = reading.lower + share * (reading.upper - reading.lower)

    needed = samples_to_prove_mean(prepared, limit, ALPHA)

    assert needed is None or needed > size


@pytest.mark.parametrize("groups", [5, 12])
def test_few_groups_with_small_differences_do_not_promise_a_pair(groups):
    """A plan by moments said that two samples would decide what 300 in 12 groups had not."""
    difference = Difference(
        value=0.1, interval=None, p_value=0.2, p_exact=None, lower=-0.02, upper=0.2, method="sign flips",
        bounds_method="gaffke", n=300, clusters=groups, deviation=0.01, dof=groups - 1.0, span=1.0,
    )  # fmt: skip

    assert samples_to_decide(difference, Contrast(metric="m", baseline="v1"), alpha=ALPHA, family_size=1) > 300
    margin = Contrast(metric="m", baseline="v1", margin=0.01)
    assert samples_to_decide(difference, margin, alpha=ALPHA, family_size=1) > 300


NORMAL_RNG = np.random.default_rng(0)
VALUES = NORMAL_RNG.normal([0.5, 0.5, 0.52, 0.3], 0.2, (80, 4))
HIGHER = MetricFacts(name="a", kind="unbounded")
LOWER = MetricFacts(name="a", kind="unbounded", direction="lower")


def compare(values, facts=HIGHER):
    return MemberValues(facts=facts, values=values, clusters=None)


def test_without_drops_it_is_the_winner_of_the_values():
    winner, result = winner_from_values(VALUES), correct_winner(compare(VALUES))
    turned = correct_winner(compare(-VALUES, LOWER))

    assert result.arm == winner.arm
    assert (result.value, result.naive) == pytest.approx((winner.estimate, winner.naive))
    assert result.interval.high == pytest.approx(winner.interval.high)
    assert (turned.value, turned.naive) == (pytest.approx(-result.value), pytest.approx(-result.naive))
    assert turned.interval.low == pytest.approx(-result.interval.high)


def test_the_luck_is_among_the_members_that_are_left():
    dropped = VALUES.copy()
    dropped[10:, [0, 3]] = np.nan
    result, left = correct_winner(compare(dropped)), winner_from_values(VALUES[:, 1:3])

    assert result.arm == left.arm + 1
    assert result.value == pytest.approx(left.estimate)


def test_only_the_samples_that_chose_the_last_one_are_corrected():
    dropped = VALUES.copy()
    best = int(VALUES[:20, :3].mean(axis=0).argmax())
    dropped[20:, [arm for arm in range(3) if arm != best]] = dropped[10:, 3:] = np.nan
    chose, result = winner_from_values(VALUES[:20, :3]), correct_winner(compare(dropped))

    assert result.arm == chose.arm == best
    assert result.naive - result.value == pytest.approx((chose.naive - chose.estimate) * 20 / 80)
    assert result.interval.low < result.value < result.interval.high


def test_what_cannot_be_corrected():
    assert correct_winner(compare(VALUES[:1])) is None
