"""`estimate`, `mean_bound` and `difference_bounds` at their edges: hardly any data, no variation, wrong input."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from pytest_crucible.stats import (
    clopper_pearson_bound,
    compare,
    difference_bounds,
    estimate,
    mean_bound,
    mean_interval,
    wilson_interval,
)
from pytest_crucible.stats.means.moments import point_mass_interval
from pytest_crucible.stats.sequential.paced_bets import betting_bound

UNIT = (0.0, 1.0)
RNG = np.random.default_rng(29)
SCORES, OTHERS = RNG.random(24).round(2), RNG.random(24).round(2)
SIXES = np.arange(24) % 6
KINDS = [
    ("auto", None),
    ("binary", None),
    ("ordinal", (0, 5)),
    ("ordinal", None),
    ("bounded", (0, 5)),
    ("bounded", (0, math.inf)),
    ("count", None),
    ("positive", None),
    ("unbounded", None),
]
HARD = {
    "one": [1.0],
    "two": [1.0, 0.0],
    "zeros": [0.0] * 8,
    "ones": [1.0] * 8,
    "but one": [0.0] * 7 + [1.0],
    "equal but for rounding": [0.1 + 0.2, 0.3] * 4,
}


@pytest.mark.parametrize("data", HARD)
@pytest.mark.parametrize(("kind", "bounds"), KINDS)
def test_an_estimate_of_hard_data_is_never_certain(data, kind, bounds):
    values = HARD[data]
    labels = [None, ["a"] * len(values), range(len(values)), [i // 2 for i in range(len(values))]]
    for clusters in labels:
        for alpha in (0.05, 0.7, 1e-6):
            result = estimate(values, kind=kind, bounds=bounds, clusters=clusters, alpha=alpha)

            assert result.estimate == pytest.approx(np.mean(values))
            assert pickle.loads(pickle.dumps(result)) == result
            assert isinstance(hash(result), int)
            if result.interval is None:
                assert result.note
                assert result.status != "ok"
            else:
                assert result.ci_low < result.ci_high
                assert result.ci_low <= result.estimate <= result.ci_high
                assert result.interval.level == 1 - alpha


@pytest.mark.slow
@pytest.mark.parametrize("data", HARD)
@pytest.mark.parametrize(("kind", "bounds"), KINDS)
def test_bounds_of_hard_data_lie_around_the_mean_whatever_the_alpha(data, kind, bounds):
    """At a large alpha the pseudo-observations would draw them past it."""
    values, zeros = HARD[data], [0.0] * len(HARD[data])
    for clusters in (None, range(len(values)), [i // 2 for i in range(len(values))]):
        facts = {"kind": kind, "bounds": bounds, "clusters": clusters}
        for alpha in (0.05, 0.2, 0.45):
            low, high = (mean_bound(values, **facts, alpha=alpha, side=side) for side in ("lower", "upper"))
            of_pairs = difference_bounds(values, zeros, **facts, alpha=alpha)
            of_arms = difference_bounds(values, zeros, False, **facts, alpha=alpha)

            for lower, upper, notes in (
                (low.value, high.value, (low.note, high.note)),
                (of_pairs.low, of_pairs.high, (of_pairs.note,) * 2),
                (of_arms.low, of_arms.high, (of_arms.note,) * 2),
            ):
                assert (lower is None, upper is None) == tuple(map(bool, notes))
                if lower is not None:
                    assert lower <= np.mean(values) + 1e-15
                if upper is not None:
                    assert upper >= np.mean(values) - 1e-15
                if lower is not None and upper is not None:
                    assert lower < upper


@pytest.mark.parametrize(
    ("values", "facts", "status"),
    [
        ([0.5], {}, "insufficient_data"),
        ([1], {}, "degenerate"),
        ([1, 1, 1], {}, "degenerate"),
        ([0.7] * 4, {"bounds": UNIT}, "degenerate"),
        ([0.1 + 0.2, 0.3], {"bounds": UNIT}, "degenerate"),
        ([0.1, 0.5] * 6, {"bounds": UNIT, "clusters": [i // 2 for i in range(12)]}, "degenerate"),
        ([0.1, 0.5] * 6, {"bounds": None, "clusters": [i // 2 for i in range(12)]}, "degenerate"),
        (SCORES, {"clusters": SIXES % 4}, "insufficient_clusters"),
        ([1], {"clusters": ["a"]}, "insufficient_clusters"),
        (SCORES, {"clusters": SIXES}, "ok"),
        (SCORES, {}, "ok"),
    ],
)
def test_the_status_says_what_the_data_carry(values, facts, status):
    assert estimate(values, **facts).status == status


def test_equal_values_between_bounds_are_a_point_mass():
    result = estimate([0.7] * 10, bounds=UNIT)

    assert result.interval == point_mass_interval(0.7, 10, bounds=UNIT)
    assert (result.note, result.deviation) == ("", 0.0)
    assert "do not vary" in estimate([0.7] * 10).note


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (5, 5), (1, 1), (0, 1)])
def test_all_or_nothing_has_the_interval_of_wilson(successes, n):
    values = [1] * successes + [0] * (n - successes)

    assert estimate(values).interval == wilson_interval(successes, n)
    assert mean_bound(values).value == clopper_pearson_bound(successes, n, alpha=0.05, side="lower")


def test_repeats_are_averaged_for_estimates_and_bounds_alike():
    repeats = RNG.integers(0, 2, (20, 4))
    means = repeats.mean(axis=1)

    assert estimate(repeats, bounds=UNIT).interval == mean_interval(means, bounds=UNIT)
    assert estimate(repeats, bounds=UNIT).assumptions[-1] == "4 repeats were averaged inside each sample"
    assert mean_bound(repeats, bounds=UNIT) == mean_bound(means, bounds=UNIT)
    assert estimate(means[:, None]) == estimate(means)


def test_a_bound_infers_its_kind_like_an_estimate():
    bits = [1, 1, 0, 1, 1, 1, 0, 1]

    assert mean_bound(bits) == mean_bound(bits, kind="binary", bounds=UNIT)
    assert mean_bound(SCORES, bounds=UNIT) == mean_bound(SCORES, kind="bounded", bounds=UNIT)
    assert mean_bound([]).value is None


def test_a_guaranteed_bound_is_the_betting_one():
    guaranteed = mean_bound(SCORES, bounds=UNIT, validity="guaranteed")
    both = difference_bounds(SCORES, OTHERS, bounds=UNIT, validity="guaranteed")

    assert guaranteed.value == betting_bound(SCORES, bounds=UNIT, alpha=0.05, side="lower")
    assert guaranteed.value != mean_bound(SCORES, bounds=UNIT).value
    assert both.low == betting_bound(SCORES - OTHERS, bounds=(-1, 1), alpha=0.05, side="lower")
    assert both.method == "betting"


def test_a_guaranteed_bound_of_groups_bets_on_groups():
    guaranteed = mean_bound(SCORES, bounds=UNIT, clusters=np.arange(24) // 4, validity="guaranteed")

    assert guaranteed.value == betting_bound(SCORES, bounds=UNIT, alpha=0.05, side="lower", clusters=np.arange(24) // 4)


@pytest.mark.parametrize("validity", ["standard", "guaranteed"])
@pytest.mark.parametrize("kind", ["binary", "bounded"])
def test_difference_bounds_are_those_of_a_comparison_with_a_margin(kind, validity):
    baseline, candidate = ((SCORES > 0.6) * 1.0, (OTHERS > 0.3) * 1.0) if kind == "binary" else (SCORES, OTHERS)
    facts = {"kind": kind, "bounds": UNIT, "validity": validity, "alpha": 0.1}

    assert difference_bounds(candidate, baseline, **facts) == compare(candidate, baseline, **facts, margin=0.2).bounds


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: estimate([]), "0 values"),
        (lambda: estimate([[]]), "0 values"),
        (lambda: estimate(0.5), r"not the shape \(\)"),
        (lambda: estimate(np.zeros((2, 2, 2))), "shape"),
        (lambda: estimate([math.nan, 1, math.inf]), "2 of 3 values are NaN or infinite"),
        (lambda: estimate([[1, math.nan], [1, 1]]), "1 of 4 values are NaN"),
        (lambda: estimate(["good"]), "values must be numbers"),
        (lambda: estimate([[1, 2], [3]]), "as many repeats"),
        (lambda: estimate(SCORES, kind="bounded"), "needs its bounds"),
        (lambda: estimate(SCORES, bounds=(1, 0)), "below the high bound"),
        (lambda: estimate(SCORES, bounds=(0, 0.5)), "of 24 values lie outside"),
        (lambda: estimate(SCORES, alpha=95), "alpha must lie between 0 and 1, not 95"),
        (lambda: estimate(SCORES, clusters="group"), "not the single text"),
        (lambda: estimate(SCORES, clusters=[*SIXES[:23], None]), "label is missing"),
        (lambda: mean_bound(SCORES, alpha=0), "alpha must lie"),
        (lambda: mean_bound(SCORES, kind="unbounded", validity="guaranteed"), "no guaranteed bound for unbounded"),
        (
            lambda: difference_bounds(OTHERS, SCORES, False, bounds=UNIT, validity="guaranteed"),
            "no guaranteed margin for bounded values of two arms",
        ),
        (lambda: difference_bounds(OTHERS, SCORES, alpha=0.5), "below 0.5, not 0.5"),
        (lambda: difference_bounds(OTHERS, SCORES, "no"), "paired must be True or False"),
        (lambda: difference_bounds(SCORES, []), "24 candidate and 0 baseline values"),
    ],
)
def test_wrong_input_is_refused_with_what_is_right(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
