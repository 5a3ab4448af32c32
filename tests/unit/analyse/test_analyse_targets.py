"""Targets of each statistic: their estimates, bounds, extremes, and how many samples would prove them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from answer_builders import score_column
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.analyse.targets import estimate_mean, evaluate_target
from pytest_crucible.gate import decide_target
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats import gaffke_bound

ALPHA = 0.05
BINARY = MetricFacts(name="m", kind="binary", low=0.0, high=1.0)
SHARE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
RATING = MetricFacts(name="m", kind="bounded", low=1.0, high=5.0)
NUMBER = MetricFacts(name="m", kind="unbounded")
COUNT = MetricFacts(name="m", kind="count", low=0.0)
SECONDS = MetricFacts(name="m", kind="unbounded", low=0.0, direction="lower")


def result(text, values, facts=BINARY, clusters=None, inapplicable=()):
    codes = None if clusters is None else np.array(clusters)
    metrics = [ScoredMetric(facts, score_column(values, facts, inapplicable))]
    return evaluate_target(parse_target(text), metrics, "v2", SampleAttributes(codes), alpha=ALPHA)


# -- statistics ---------------------------------------------------------------------------------------------------


def test_a_mean_of_bits_has_a_wilson_interval_and_clopper_pearson_bounds():
    target_result = result("m >= 0.95", [1] * 48 + [0] * 2)

    assert target_result.estimate.value == 0.96
    interval = target_result.estimate.interval
    assert (round(interval.low, 3), round(interval.high, 3), interval.method) == (0.865, 0.989, "wilson")
    observed = target_result.evidence.observed
    assert (observed.lower, observed.upper) == pytest.approx((beta.ppf(0.05, 48, 3), beta.ppf(0.95, 49, 2)))
    assert target_result.evidence.method == "clopper-pearson"


def test_a_mean_of_a_bounded_score_is_bounded_by_random_weights_of_the_values_and_an_end():
    values = [0.2, 0.4, 0.9, 0.7, 0.6, 0.8]
    observed = result("m >= 0.5", values, SHARE).evidence.observed

    weights = np.random.default_rng(1).dirichlet(np.ones(7), 100_000)
    low, high = np.quantile(weights @ [*values, 0.0], 0.05), np.quantile(weights @ [*values, 1.0], 0.95)
    assert observed.value == pytest.approx(np.mean(values))
    assert (observed.lower, observed.upper) == pytest.approx((low, high), abs=0.005)


def test_a_rate_counts_the_samples_that_satisfy_its_condition():
    target_result = result("rate(m >= 0.75) >= 0.45", [0.75, 0.74, 1.0, 0.0], SHARE)

    assert (target_result.estimate.value, target_result.estimate.statistic) == (0.5, "rate >= 0.75")
    assert target_result.evidence.observed.lower == pytest.approx(beta.ppf(0.05, 2, 3))
    assert target_result.evidence.method == "clopper-pearson"


@pytest.mark.parametrize(
    ("relation", "value"), [(">=", 3 / 5), ("<=", 4 / 5), (">", 1 / 5), ("<", 2 / 5), ("==", 2 / 5)]
)
def test_a_rate_knows_every_relation(relation, value):
    assert result(f"rate(m {relation} 2) >= 0", [1, 1, 2, 2, 3], NUMBER).estimate.value == value


def test_a_count_is_a_sum():
    target_result = result("count(m) <= 10", [0, 2, 3, 0, 1], COUNT)
    assert result("count(m > 1) <= 10", [0, 2, 3, 0, 1], NUMBER).estimate.value == 2

    assert (target_result.estimate.value, target_result.estimate.n) == (6, 5)
    mean = result("mean(m) <= 2", [0, 2, 3, 0, 1], COUNT)
    assert target_result.evidence.observed.lower == pytest.approx(5 * mean.evidence.observed.lower)
    assert target_result.estimate.interval.high == pytest.approx(5 * mean.estimate.interval.high)


@pytest.mark.parametrize("facts", [BINARY, NUMBER], ids=["binary", "unbounded"])
def test_a_count_of_zero_says_how_many_there_may_be(facts):
    target_result = result("count(m) == 0", [0] * 50, facts)

    assert target_result.evidence.observed.value == 0
    assert target_result.evidence.observed.upper == pytest.approx(50 * (1 - 0.05 ** (1 / 50)))


@pytest.mark.parametrize(("share", "value"), [("50", 3), ("95", 10), ("10", 1), ("80", 4)])
def test_a_quantile_is_one_of_the_values(share, value):
    target_result = result(f"p{share}(m) <= 5", [1, 2, 3, 4, 10], NUMBER)

    assert (target_result.estimate.value, target_result.estimate.statistic) == (value, f"p{share}")


def test_bounds_of_a_quantile_are_order_statistics():
    """The largest of 60 values exceeds the 95th percentile with probability 1 - 0.95^60 = 0.954."""
    values = list(np.random.default_rng(0).permutation(60) + 1.0)
    observed = result("p95(m) <= 70", values, NUMBER).evidence.observed

    assert observed.value == 57
    assert observed.upper == 60
    rank = max(k for k in range(60) if binom.sf(k - 1, 60, 0.95) >= 0.95)
    assert observed.lower == rank
    assert result("p95(m) <= 70", values[:58], NUMBER).evidence.observed.upper == math.inf


def test_clusters_widen_the_bounds_of_a_mean():
    values, groups = [1, 1, 1, 1, 0, 0, 0, 0] * 5, np.repeat(np.arange(10), 4)
    alone, grouped = result("m >= 0.5", values), result("m >= 0.5", values, clusters=groups)

    assert (alone.estimate.clusters, grouped.estimate.clusters) == (None, 10)
    assert grouped.estimate.value == alone.estimate.value
    assert grouped.evidence.observed.lower < alone.evidence.observed.lower
    assert grouped.evidence.observed.upper > alone.evidence.observed.upper
    assert grouped.estimate.interval.low < alone.estimate.interval.low


def test_a_quantile_of_grouped_samples_has_wider_bounds():
    values, groups = list(range(200)), np.repeat(np.arange(40), 5)
    alone, grouped = result("p50(m) <= 30", values, NUMBER), result("p50(m) <= 30", values, NUMBER, clusters=groups)

    assert grouped.estimate.value == alone.estimate.value == 99
    assert (grouped.estimate.clusters, alone.estimate.clusters) == (40, None)
    assert grouped.estimate.method == grouped.evidence.method == "inverted korn-graubard and gaffke"
    assert grouped.evidence.observed.lower < alone.evidence.observed.lower
    assert grouped.evidence.observed.upper > alone.evidence.observed.upper


def test_a_quantile_of_four_groups_has_no_bounds():
    four = result("p50(m) <= 30", list(range(40)), NUMBER, clusters=np.repeat(np.arange(4), 10))

    assert (four.estimate.interval, four.evidence.observed.lower) == (None, None)
    assert four.evidence.method == "none: 4 clusters: a cluster-robust interval needs at least 5"


def test_clusters_without_a_score_do_not_count():
    target_result = result("m >= 0.5", [1, 0, 1, None, None, 1, 0, 1, 0, 1], clusters=[0, 0, 1, 2, 2, 3, 3, 4, 5, 5])

    assert target_result.estimate.clusters == 5


def test_lost_samples_alone_have_no_estimate():
    target_result = result("m >= 0.5", [None, None], NUMBER)

    assert (target_result.estimate.value, target_result.estimate.interval, target_result.estimate.n) == (None, None, 0)
    assert target_result.evidence.observed.value is None
    assert target_result.needed is None


@pytest.mark.parametrize(("facts", "worst"), [(RATING, 1.0), (SHARE, 0.0)], ids=["rating", "share"])
def test_the_unconditional_mean_has_the_worst_value_where_the_metric_does_not_apply(facts, worst):
    scores = score_column([1.0, 1.0, None], facts, inapplicable=[2])
    mean = estimate_mean(facts, "v2", scores, None, level=0.95)

    assert (mean.value, mean.n, mean.inapplicable, mean.lost) == (1.0, 2, 1, 0)
    assert mean.unconditional == pytest.approx((2 + worst) / 3)


def test_without_a_worst_value_there_is_no_unconditional_mean():
    scores = score_column([1.0, None], NUMBER, inapplicable=[1])

    assert estimate_mean(NUMBER, "v2", scores, None, level=0.95).unconditional is None


# -- lost samples -------------------------------------------------------------------------------------------------


def fillings(values, ends):
    """Yield the values with each lost one at any of the ends."""
    return itertools.product(*(ends if value is None else (value,) for value in values))


@given(
    st.lists(st.sampled_from([0.0, 1.0, None]), min_size=1, max_size=7),
    st.sampled_from(["m >= 0.5", "rate(m >= 0.5) >= 0.5", "rate(m <= 0.5) >= 0.5", "rate(m == 0) >= 0.5", "count(m) <= 2"]),
)  # fmt: skip
def test_no_lost_bit_can_make_a_statistic_lie_outside_its_extremes(values, text):
    evidence = result(text, values).evidence
    extremes = sorted((evidence.worst.value, evidence.best.value))
    for filled in fillings(values, (0.0, 1.0)):
        whole = result(text, filled).evidence.observed

        assert extremes[0] - 1e-9 <= whole.value <= extremes[1] + 1e-9
        assert min(evidence.worst.lower, evidence.best.lower) - 1e-9 <= whole.lower
        assert whole.upper <= max(evidence.worst.upper, evidence.best.upper) + 1e-9


@given(
    st.lists(st.sampled_from([1.0, 2.0, 3.0, None]), min_size=1, max_size=5),
    st.sampled_from(["rate(m == 2) >= 0.5", "rate(m >= 2) >= 0.5", "count(m == 2) == 0", "p50(m) <= 2", "m < 2"]),
)
def test_no_lost_rating_can_make_a_statistic_lie_outside_its_extremes(values, text):
    facts = MetricFacts(name="m", kind="bounded", low=1.0, high=3.0)
    evidence = result(text, values, facts).evidence
    extremes = sorted((evidence.worst.value, evidence.best.value))
    for filled in fillings(values, (1.0, 2.0, 3.0)):
        assert extremes[0] - 1e-9 <= result(text, filled, facts).evidence.observed.value <= extremes[1] + 1e-9


def test_without_lost_samples_the_extremes_are_the_observed_value():
    evidence = result("m >= 0.5", [1, 0, 1]).evidence

    assert evidence.worst == evidence.best == evidence.observed


def test_a_lost_value_without_bounds_can_be_anything():
    evidence = result("m <= 2", [1.0, 1.5, None], SECONDS).evidence
    low, high = sorted((evidence.worst, evidence.best), key=lambda item: item.value)

    assert low.value == pytest.approx(2.5 / 3)
    assert (high.value, high.lower, high.upper) == (math.inf, None, None)


def test_a_quantile_stands_a_lost_value_without_bounds():
    evidence = result("p50(m) <= 2", [1.0] * 40 + [None] * 2, NUMBER).evidence

    assert evidence.worst.value == evidence.best.value == 1.0


# -- how many would prove it --------------------------------------------------------------------------------------


def chance_of_proof(n, rate, target):
    """Share of n samples, at this rate, of which the Clopper-Pearson bound is beyond the target: binomial tails."""
    counts = np.arange(n + 1)
    if rate > target:
        proves = np.where(counts > 0, beta.ppf(0.05, np.maximum(counts, 1), n - counts + 1), 0.0) >= target
    else:
        proves = np.where(counts < n, beta.ppf(0.95, counts + 1, np.maximum(n - counts, 1)), 1.0) <= target
    return binom.pmf(counts, n, rate)[proves].sum()


@pytest.mark.parametrize("relation", [">=", "<="])
@pytest.mark.parametrize(("passes", "n", "target"), [(9, 10, 0.8), (1, 10, 0.2), (7, 10, 0.8), (3, 10, 0.2)])
def test_the_n_that_proves_a_share_on_its_side(relation, passes, n, target):
    """Met or missed, above or below: at this rate that many samples would settle it in four of five runs."""
    target_result = result(f"m {relation} {target}", [1] * passes + [0] * (n - passes))

    assert 0.8 <= chance_of_proof(target_result.needed, passes / n, target) < 0.85


@pytest.mark.parametrize("target", [2.0, 3.5])
def test_the_n_that_proves_a_mean(target):
    """The size proves the target in four of five runs; values without ends have no such size."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0] * 40
    needed = result(f"m >= {target}", values, RATING).needed
    runs = np.random.default_rng(2).choice(values, (400, needed))
    end, side = (1.0, "lower") if target < 3 else (5.0, "upper")
    proven = [(gaffke_bound(run, end=end, alpha=ALPHA, side=side) > target) == (target < 3) for run in runs]

    assert 0.74 < np.mean(proven) < 0.86
    assert result(f"m >= {target}", values, NUMBER).needed is None


@pytest.mark.parametrize(
    ("text", "facts"), [("m >= 0.8", BINARY), ("rate(m >= 1) >= 0.8", NUMBER), ("m >= 0.8", SHARE)]
)
def test_the_n_that_proves_is_not_known_for_grouped_samples(text, facts):
    values, groups = [1, 1, 1, 1, 1, 1, 1, 0, 1, 1], np.repeat(np.arange(5), 2)

    assert result(text, values, facts).needed
    assert result(text, values, facts, clusters=groups).needed is None


@pytest.mark.parametrize("text", ["m >= 0.5", "m == 0.5", "count(m) <= 3", "p50(m) >= 0.5"])
def test_claims_without_a_sample_size_have_none(text):
    """The rate is on the target; an equality, a count or a quantile has no such n."""
    assert result(text, [1, 0, 1, 0]).needed is None


# -- with the gate ------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=30), st.floats(0, 1))
def test_proof_and_disproof_exclude_each_other(values, limit):
    target = parse_target(f"m >= {limit:.3f}", decide="bound")
    metrics = [ScoredMetric(SHARE, score_column(values, SHARE))]
    reading = evaluate_target(target, metrics, "v2", SampleAttributes(), alpha=ALPHA).evidence.observed

    state, proven = decide_target(target, reading, strict=False)
    assert proven == (state != "undecided")
    assert not (reading.lower > reading.upper)


# -- impossible targets -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["m <= 80", "mean(m) >= -1", "rate(m >= 80) >= 0.5", "count(m >= 80) == 0"])
def test_a_target_that_no_value_could_miss_or_meet_is_an_error_of_the_suite(text):
    assert result(text, [0.0, 1.0, 1.0]).suite_error.startswith(f"target {text!r} ")


@pytest.mark.parametrize(("values", "facts"), [([None, None], NUMBER), ([0.0, 1.0], NUMBER), ([None, None], BINARY)])
def test_a_target_that_no_value_contradicts_is_not_an_error(values, facts):
    assert result("m <= 80", values, facts).suite_error == ""


# -- values without ends ------------------------------------------------------------------------------------------


def test_a_mean_without_ends_is_never_proven_and_says_what_to_do():
    target_result = result("m >= 0.5", [0.9, 1.0] * 50, NUMBER)

    observed = target_result.evidence.observed
    assert (observed.value, observed.lower, observed.upper) == (pytest.approx(0.95), None, None)
    assert "declare bounds of 'm'" in target_result.note
    assert (target_result.evidence.method, target_result.needed) == ("none", None)
    assert decide_target(target_result.target, observed, strict=False) == ("met", False)
    assert decide_target(target_result.target, observed, strict=True) == ("undecided", False)


def test_an_amount_is_proven_to_be_large_and_never_to_be_small():
    values, amount = [1.0, 2.0, 3.0, 10.0] * 20, MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
    low, high = result("m <= 2", values, amount), result("m <= 40", values, amount)

    assert 2 < low.evidence.observed.lower < 4
    assert low.evidence.observed.upper is None
    assert decide_target(low.target, low.evidence.observed, strict=False) == ("missed", True)
    assert decide_target(high.target, high.evidence.observed, strict=False) == ("met", False)
    assert "from above" in high.note


def test_declared_ends_make_an_amount_provable():
    amount = MetricFacts(name="m", kind="positive", low=0.0, high=60.0, direction="lower")
    target_result = result("m <= 20", [1.0, 2.0, 3.0, 10.0] * 20, amount)

    assert decide_target(target_result.target, target_result.evidence.observed, strict=True) == ("met", True)
    assert target_result.note == ""
