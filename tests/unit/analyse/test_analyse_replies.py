"""Rates, percentiles and counts of several replies to a sample, some of them lost or without a score."""

from __future__ import annotations

import numpy as np
import pytest
from answer_builders import LOST, score_rows

from pytest_crucible.analyse.comparisons import compare, compare_pair
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.analyse.targets import evaluate_target
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import MetricFacts

SHARE = MetricFacts(name="m", kind="bounded", low=0.0, high=1.0)
SECONDS = MetricFacts(name="m", kind="positive", low=0.0, direction="lower")
FLAGS = MetricFacts(name="m", kind="count", low=0.0, direction="lower")


def target(text, rows, facts=SHARE, clusters=None):
    attributes = SampleAttributes(None if clusters is None else np.array(clusters))
    return evaluate_target(parse_target(text), score_rows(facts, rows), "v2", attributes, alpha=0.05)


def run_comparison(text, ours, theirs, facts=SHARE, clusters=None, **options):
    attributes = SampleAttributes(None if clusters is None else np.array(clusters))
    arms = score_rows(facts, ours), score_rows(facts, theirs)
    return compare(parse_contrast(text, **options), "v2", arms, attributes, alpha=0.05, family_size=1)


@pytest.fixture
def draws():
    """Scores of 40 samples, five replies each, that differ more between samples than within them."""
    rng = np.random.default_rng(4)
    return np.clip(rng.beta(2, 2, (40, 1)) + rng.normal(0, 0.15, (40, 5)), 0, 1)


def test_the_condition_goes_before_the_mean():
    rows = [[0.9, 0.9, 0.2], [0.9, 0.6, 0.6]] * 10

    assert target("rate(m >= 0.7) >= 0.5", rows).estimate.value == 0.5
    assert target("count(m >= 0.7) >= 0.5", rows).estimate.value == 30


def test_replies_weigh_equally_where_some_are_lost_or_do_not_apply():
    rows = [[1.0, 1.0, 1.0], [0.0, LOST, None], [0.0, LOST, 0.0], *([[1.0, 0.0, 0.0]] * 6)]

    result = target("rate(m >= 0.5) >= 0.5", rows)

    assert result.estimate.value == pytest.approx((3 + 6) / (3 + 1 + 2 + 18))
    assert (result.estimate.n, result.estimate.lost, result.estimate.replies) == (9, 2, 24)
    # The lost replies do not hold at worst, and all hold at best; the one that does not apply is in neither.
    worst, best = result.evidence.worst.value, result.evidence.best.value
    assert (worst, best) == pytest.approx((9 / 26, 11 / 26))


@pytest.mark.parametrize(
    ("text", "rows", "words"),
    [
        ("m >= 0.5", [[1.0, 1.0, 1.0], [0.0, LOST, 0.0]], "5 replies, each sample counts alike"),
        ("rate(m >= 0.5) >= 0.5", [[1.0, 1.0, 1.0], [0.0, LOST, 0.0]], "5 replies, each reply counts alike"),
        ("p50(m) >= 0.5", [[1.0, 1.0, 1.0], [0.0, LOST, 0.0]], "5 replies, each reply counts alike"),
        ("m >= 0.5", [[1.0, 1.0, 1.0], [0.0, None, 0.0]], "5 replies, each reply counts alike"),
        (
            "m >= 0.5",
            [[1.0, 1.0, None], [0.0, LOST, LOST]],
            "3 replies, each sample counts by the share of its replies that the metric applies to",
        ),
        ("m >= 0.5", [[1.0, 1.0, LOST], [0.0, LOST, 0.0]], ""),
        ("rate(m >= 0.5) >= 0.5", [[1.0, 1.0], [0.0, 0.0]], ""),
    ],
)
def test_uneven_repeats_say_what_counts_alike(text, rows, words):
    estimate = target(text, rows * 3).estimate

    assert estimate.uneven == words.replace("5 replies", "15 replies").replace("3 replies", "9 replies")
    counts = np.array([sum(isinstance(value, float) and value is not LOST for value in row) for row in rows])
    means = np.array([row[0] for row in rows])
    if "each sample counts alike" in words:
        assert estimate.value == pytest.approx(means.mean())
    elif "each reply counts alike" in words and not text.startswith("p50"):
        assert estimate.value == pytest.approx((means * counts).sum() / counts.sum())
    elif "by the share" in words:
        assert estimate.value == pytest.approx((2 / 3 * 1.0 + 1.0 * 0.0) / (2 / 3 + 1))


def test_a_share_of_replies_is_a_clustered_proportion():
    """R's survey::svyciprop(~m, svydesign(ids = ~sample), method = "beta") has [0.1311, 0.9551]; the bounds are wider."""
    rows = [[1.0, 1.0, None], [0.0, 1.0, None], [0.0, 0.0, None], [1.0, 0.0, None], [1.0, 1.0, LOST]]

    result = target("rate(m >= 0.5) >= 0.5", rows)

    assert result.estimate.value == 0.6
    interval = result.estimate.interval
    assert (round(interval.low, 4), round(interval.high, 4)) == (0.1111, 0.9647)
    assert (result.estimate.method, result.evidence.method) == ("wider of korn-graubard and gaffke",) * 2
    assert result.estimate.clusters is None


def test_the_variance_of_a_difference_of_shares_is_that_of_two_ratios():
    """R: survey::svyratio on both arms' totals; their residuals add up in each sample."""
    ours = [[1.0, 1.0, 1.0], [0.0, LOST, LOST], [0.0, 1.0, LOST], *([[1.0, 0.0, 0.0]] * 5), [1.0, LOST, LOST]]
    theirs = [[0.0, 1.0, LOST], [0.0, 0.0, 0.0], [0.0, 1.0, 1.0], *([[1.0, 0.0, LOST]] * 5), [1.0, 1.0, LOST]]
    shares, residuals = [], []
    for arm in (ours, theirs):
        replies = [[value for value in row if value != LOST] for row in arm]
        sizes, totals = np.array(list(map(len, replies))), np.array(list(map(sum, replies)))
        shares.append(totals.sum() / sizes.sum())
        residuals.append((totals - sizes * shares[-1]) / sizes.sum())
    variance = len(ours) / (len(ours) - 1) * ((residuals[0] - residuals[1]) ** 2).sum()

    arms, everything = (score_rows(SHARE, ours), score_rows(SHARE, theirs)), np.ones(len(ours), dtype=bool)
    ends = ("observed", "observed")
    result = compare_pair(parse_contrast("rate(m >= 0.5)"), arms, SampleAttributes(), everything, ends, 0.05)

    assert result.value == pytest.approx(shares[0] - shares[1])
    assert result.deviation**2 / len(ours) == pytest.approx(variance)


def test_repeats_of_one_reply_are_worth_no_more_than_it(draws):
    once, copied = draws[:, :1], np.repeat(draws[:, :1], 5, axis=1)
    of_one, of_five = (target("rate(m >= 0.5) >= 0.5", rows) for rows in (once, copied))
    p50_of_one, p50_of_five = (target("p50(m) >= 0.5", rows) for rows in (once, copied))

    assert of_five.estimate.value == of_one.estimate.value
    assert of_five.evidence.observed.lower == pytest.approx(of_one.evidence.observed.lower, abs=0.02)
    assert of_five.evidence.observed.lower <= of_one.evidence.observed.lower
    assert p50_of_five.estimate.value == p50_of_one.estimate.value
    assert p50_of_five.evidence.observed.upper >= p50_of_one.evidence.observed.upper
    assert p50_of_five.evidence.observed.lower <= p50_of_one.evidence.observed.lower


def test_samples_of_one_group_are_one_cluster(draws):
    groups = np.repeat(np.arange(10), 4)
    for text in ("rate(m >= 0.5) >= 0.5", "p50(m) >= 0.5", "count(m >= 0.5) >= 5"):
        # Copies of one sample make a group of it.
        copied = [draws[k // 4] for k in range(40)]
        alone, grouped = target(text, copied), target(text, copied, clusters=groups)
        assert grouped.estimate.value == alone.estimate.value
        assert grouped.evidence.observed.lower < alone.evidence.observed.lower


def test_a_percentile_is_of_replies():
    rows = [[1.0, 1.0, 1.0, 1.0, 5.68]] * 100

    result = target("p95(m) <= 5", rows, SECONDS)

    assert (result.estimate.value, result.estimate.replies) == (5.68, 500)
    assert result.evidence.observed.lower == 5.68


def test_a_lost_latency_may_be_any_number():
    rows = [[1.0, 1.0 + k / 100, 1.2] for k in range(60)]
    rows[0] = [1.0, LOST, LOST]

    result = target("p95(m) <= 5", rows, SECONDS)

    assert (result.evidence.worst.value, result.evidence.best.value) == (1.5, 1.52)


def test_a_count_is_of_replies_and_keeps_its_bound_at_zero():
    rows = [[0.0] * 5 for _ in range(50)]
    assert target("count(m) == 0", rows, FLAGS).evidence.observed.upper == pytest.approx(250 * (1 - 0.05 ** (1 / 50)))

    rows[7][2:4] = [4.0, 2.0]
    assert target("count(m) == 0", rows, FLAGS).estimate.value == 6


def test_comparisons_are_about_replies(draws):
    worse = np.clip(draws - 0.12, 0, 1)

    rate, total = (run_comparison(text, worse, draws) for text in ("rate(m >= 0.5)", "count(m >= 0.5)"))

    assert rate.difference == pytest.approx((worse >= 0.5).mean() - (draws >= 0.5).mean())
    assert total.difference == (worse >= 0.5).sum() - (draws >= 0.5).sum()
    assert rate.p_value == total.p_value < 0.001
    assert (total.detectable, total.needed) == (None, None)


def test_arms_with_unequal_losses_are_compared_by_their_shares(draws):
    ours, theirs = (np.array(draws, dtype=object) for _ in range(2))
    ours[3, 1:], theirs[8, 0] = None, None

    result = run_comparison("rate(m >= 0.5)", ours, theirs)

    shares = [np.mean([value >= 0.5 for value in arm.ravel() if value is not None]) for arm in (ours, theirs)]
    assert result.difference == pytest.approx(shares[0] - shares[1])
    assert result.interval.low < 0 < result.interval.high


def test_percentiles_are_compared_by_their_difference(draws):
    seconds = 1 + draws

    result = run_comparison("p50(m)", 2 * seconds, seconds, SECONDS)

    # Lower is better, so that twice the time is a negative difference.
    assert result.difference == pytest.approx(-np.quantile(seconds, 0.5, method="inverted_cdf"))
    assert result.p_value < 0.001
    assert result.interval.high < 0
    assert run_comparison("p50(m)", seconds, seconds, SECONDS).p_value == 1
    assert run_comparison("p50(m)", seconds + 1e-9, seconds, SECONDS).difference == 0


def test_interval_and_p_value_of_a_percentile_agree(draws):
    for shift in np.linspace(0.01, 0.3, 30):
        result = run_comparison(
            "p50(m)", np.clip(draws + shift, 0, 1.3), draws, MetricFacts(name="m", kind="unbounded")
        )
        excluded = result.interval.low > 0 or result.interval.high < 0
        assert excluded == (result.p_value <= 0.05)


def test_too_few_samples_for_a_percentile_say_so(draws):
    result = run_comparison("p95(m)", 1 + draws, 2 + draws, SECONDS)

    assert (result.interval, result.p_value) == (None, None)
    assert result.note == "too few samples to bound a difference of p95"


@pytest.mark.parametrize("claim", ["m >= 0.5", "rate(m >= 0.7) >= 0.5"])
def test_at_looks_an_estimate_is_that_of_a_run_without_looks(claim):
    """A rate counts replies, of which samples have unequal numbers; a mean counts samples."""
    metrics = score_rows(SHARE, [[0.9, 0.9, 0.2], [0.9, None, None]] * 10)
    plain, looked = (
        evaluate_target(parse_target(claim), metrics, "v2", SampleAttributes(look_alpha=alpha), alpha=0.05)
        for alpha in (None, 0.05)
    )

    assert looked.estimate.value == pytest.approx(plain.estimate.value, abs=1e-12)
    assert looked.evidence.observed.value == pytest.approx(plain.evidence.observed.value, abs=1e-12)


@pytest.mark.parametrize("text", ["m", "rate(m >= 0.7)"])
@pytest.mark.parametrize("clusters", [None, [0, 0, 0, 0, 1, 1, *range(2, 16)]], ids=["samples", "groups"])
def test_at_looks_a_difference_is_that_of_a_run_without_looks(text, clusters):
    codes = None if clusters is None else np.array(clusters)
    arms = (
        score_rows(SHARE, [[0.9, 0.9, 0.2], [0.9, None, None]] * 10),
        score_rows(SHARE, [[0.2, 0.9, 0.2], [0.9, 0.1, None]] * 10),
    )
    plain, looked = (
        compare(parse_contrast(text), "v2", arms, SampleAttributes(codes, look_alpha=alpha), alpha=0.05, family_size=1)
        for alpha in (None, 0.05)
    )

    assert looked.difference == pytest.approx(plain.difference, abs=1e-12)
