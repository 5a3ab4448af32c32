"""Invariants of `compare`, for all data: one answer from one statistic, the same from either side, in any order and unit.

That interval and p-value of two-sided paired comparisons agree is in `test_stats_invariants`; here is everything else.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from run_sizes import choose_examples

from pytest_crucible.stats import compare, estimate

UNIT = (0.0, 1.0)
ALPHAS = st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.3])
SIDES = st.sampled_from(["two-sided", "greater", "less"])
MARGINS = st.sampled_from([0.05, 0.125, 0.3, 0.6])
BITS = st.sampled_from([0.0, 1.0])
EIGHTHS = st.integers(0, 8).map(lambda value: value / 8)
TIMES = st.integers(1, 4000).map(lambda value: value / 64)
VALUES = {"binary": (BITS, UNIT), "bounded": (EIGHTHS, UNIT), "unbounded": (TIMES, None)}
FEWER = settings(max_examples=choose_examples(60))


@dataclasses.dataclass(frozen=True)
class Case:
    """Two arms, with what is declared about them."""

    candidate: np.ndarray
    baseline: np.ndarray
    facts: dict

    def compare(self, **options):
        return compare(self.candidate, self.baseline, **{**self.facts, **options})

    def swap(self, **options):
        clusters = self.facts["clusters"]
        if clusters is not None and not self.facts["paired"]:
            clusters = clusters[::-1]
        return compare(self.baseline, self.candidate, **{**self.facts, "clusters": clusters, **options})


@st.composite
def cases(draw, kinds=tuple(VALUES), *, clustered=None, fewest=1):
    """A case of any kind and design; one of positive values may ask for a ratio."""
    kind = draw(st.sampled_from(kinds))
    values, bounds = VALUES[kind]
    paired = draw(st.booleans())
    n = draw(st.integers(fewest, 24))
    m = n if paired else draw(st.integers(fewest, 24))
    grouped = draw(st.booleans()) if clustered is None else clustered
    labels = st.integers(0, 9)
    of_candidate, of_baseline = (draw(st.lists(labels, min_size=size, max_size=size)) for size in (n, m))
    facts = {
        "kind": kind,
        "bounds": bounds,
        "paired": paired,
        "clusters": None if not grouped else of_candidate if paired else (of_candidate, of_baseline),
        "estimand": draw(st.sampled_from(["difference", "ratio"])) if kind == "unbounded" else "difference",
    }
    arms = (np.array(draw(st.lists(values, min_size=size, max_size=size))) for size in (n, m))
    return Case(*arms, facts)


def near(value, other):
    if value is None or other is None:
        return value is other
    return other == pytest.approx(value, rel=1e-7, abs=1e-9)


def ends(interval):
    return (None, None) if interval is None else (interval.low, interval.high)


# -- one answer ---------------------------------------------------------------------------------------------------


@given(cases(), SIDES, ALPHAS)
@settings(max_examples=choose_examples(400))
@example(Case(np.full(30, 0.1), np.zeros(30), {"kind": "bounded", "bounds": UNIT, "paired": True, "clusters": None,
                                               "estimand": "difference"}), "greater", 0.05)  # fmt: skip
def test_p_is_below_alpha_exactly_when_the_interval_excludes_no_difference(case, alternative, alpha):
    result = case.compare(alternative=alternative, alpha=alpha)

    assert (result.interval is None) <= bool(result.note)
    # An approximate interval has no p-value: that of a mean without bounds, and of logarithms their own.
    proof = result.p_value if result.estimand == "ratio" else result.proof_p
    if result.interval is not None and proof is not None:
        assume(abs(proof - alpha) > 1e-9)
        low, high = ends(result.interval)
        assert (low > result.no_difference or high < result.no_difference) == (proof < alpha)
        assert result.estimand == "ratio" or result.proven == (proof < alpha)


@given(cases(), SIDES, ALPHAS)
@FEWER
def test_the_estimate_lies_inside_its_interval_and_that_inside_what_is_possible(case, alternative, alpha):
    result = case.compare(alternative=alternative, alpha=alpha, margin=0.3)
    bounded = case.facts["bounds"] is not None
    lowest, highest = (0.0, math.inf) if result.estimand == "ratio" else (-1, 1) if bounded else (-math.inf, math.inf)
    slack = 1e-12 * max(1.0, abs(result.estimate))

    assert lowest <= result.estimate <= highest
    for low, high in (ends(result.interval), ends(result.bounds)):
        if low is not None:
            assert lowest <= low < high <= highest
            assert low - slack <= result.estimate <= high + slack


@given(cases(clustered=False, fewest=2))
@FEWER
def test_an_unanswered_comparison_says_so_in_its_status(case):
    result = case.compare()
    differences = case.candidate - case.baseline if case.facts["paired"] else None

    assert (result.p_value is None) == result.status.startswith("insufficient")
    if differences is not None and result.estimand == "difference":
        assert (result.status == "degenerate") == (np.ptp(differences) == 0)
    elif result.estimand == "difference":
        assert (result.status == "degenerate") == (np.ptp(case.candidate) == np.ptp(case.baseline) == 0)


# -- from either side ---------------------------------------------------------------------------------------------


@given(cases(), ALPHAS)
@FEWER
def test_swapping_the_arms_turns_the_answer_round_and_keeps_p(case, alpha):
    result, swapped = case.compare(alpha=alpha), case.swap(alpha=alpha)
    low, high = ends(result.interval)
    turned = (lambda value: 1 / value) if result.estimand == "ratio" else (lambda value: -value)

    alike = result.alikeness
    if alike is None or alike.exact or result.paired:
        assert near(result.p_value, swapped.p_value)
    else:
        # Random arrangements of unequal arms are others once the arms change places.
        deviation = math.sqrt(result.p_value * (1 - result.p_value) / alike.arrangements)
        assert result.p_value == pytest.approx(swapped.p_value, abs=6 * math.sqrt(2) * deviation + 1e-9)
    assert near(result.p_exact, swapped.p_exact)
    assert near(turned(result.estimate), swapped.estimate)
    assert (result.baseline, result.candidate) == (swapped.candidate, swapped.baseline)
    assert (result.status, result.method, result.significant) == (swapped.status, swapped.method, swapped.significant)
    assume(low != 0 or result.estimand == "difference")
    if low is not None:
        assert near(turned(low), swapped.interval.high)
        assert near(turned(high), swapped.interval.low)


@given(cases())
@FEWER
def test_one_sided_p_values_add_to_1_and_the_smaller_is_half_of_the_two_sided(case):
    both, up, down = (case.compare(alternative=side).p_value for side in ("two-sided", "greater", "less"))
    degenerate = case.compare().status == "degenerate"

    assert (both is None) == (up is None) == (down is None)
    # Outcomes are discrete, and an exact test counts the observed one in both tails. Random arrangements have an error, and the
    # two tails of few arrangements, of arms of unequal size, need not be alike.
    discrete, error = case.facts["estimand"] == "difference", 0.03
    has_unlike_tails = case.candidate.size != case.baseline.size
    if both is not None and (degenerate or discrete):
        assert up + down >= 1 - error
        assert has_unlike_tails or both <= 2 * min(up, down) + error
    elif both is not None:
        assert up + down == pytest.approx(1)
        assert both == pytest.approx(2 * min(up, down))


@given(cases(), MARGINS, st.sampled_from(["higher", "lower"]))
@FEWER
def test_decisions_are_the_same_from_the_other_side(case, margin, direction):
    other = "lower" if direction == "higher" else "higher"
    result = case.compare(margin=margin, direction=direction)
    swapped = case.swap(margin=margin, direction=other)

    assert result.non_inferior == swapped.non_inferior
    assert result.equivalent == swapped.equivalent


# -- in any order and unit ----------------------------------------------------------------------------------------


@given(cases(), st.randoms(use_true_random=False))
@FEWER
def test_the_order_of_samples_and_the_names_of_clusters_do_not_matter(case, random):
    sizes = case.candidate.size, case.baseline.size
    first = random.sample(range(sizes[0]), sizes[0])
    second = first if case.facts["paired"] else random.sample(range(sizes[1]), sizes[1])
    clusters = case.facts["clusters"]
    if clusters is not None and case.facts["paired"]:
        clusters = [f"group {clusters[k]}" for k in first]
    elif clusters is not None:
        clusters = tuple([f"group {of[k]}" for k in order] for of, order in zip(clusters, (first, second), strict=True))

    result = case.compare(margin=0.3)
    other = Case(case.candidate[first], case.baseline[second], {**case.facts, "clusters": clusters}).compare(margin=0.3)

    assert near(result.estimate, other.estimate)
    assert near(result.p_value, other.p_value)
    assert all(map(near, ends(result.interval), ends(other.interval)))
    assert all(map(near, ends(result.bounds), ends(other.bounds)))
    assert result.status == other.status


@given(cases(("unbounded",)), st.sampled_from([0.25, 2.0, 1024.0]))
@FEWER
def test_another_unit_scales_a_difference_and_leaves_a_ratio(case, unit):
    result = case.compare()
    scaled = Case(case.candidate * unit, case.baseline * unit, case.facts).compare()
    factor = 1.0 if result.estimand == "ratio" else unit

    assert near(result.p_value, scaled.p_value)
    assert near(result.estimate * factor, scaled.estimate)
    if result.interval is not None:
        assert all(
            near(single * factor, other)
            for single, other in zip(*map(ends, (result.interval, scaled.interval)), strict=True)
        )


@given(st.lists(BITS, min_size=2, max_size=12), st.data())
@FEWER
def test_the_kind_never_changes_what_is_estimated(baseline, data):
    candidate = data.draw(st.lists(BITS, min_size=len(baseline), max_size=len(baseline)))
    facts = [{}, *({"kind": kind, "bounds": (0, 9)} for kind in ("ordinal", "bounded", "count", "positive"))]
    facts += [{"kind": "binary"}, {"kind": "unbounded"}, {"bounds": (0, 9)}, {"bounds": UNIT}]
    for paired in (True, False):
        results = [compare(candidate, baseline, paired, **single) for single in facts]

        assert len({single.estimate for single in results}) == 1
        assert len({(single.baseline, single.candidate) for single in results}) == 1
    assert len({estimate(candidate, **single).estimate for single in facts}) == 1


# -- decisions against a margin -----------------------------------------------------------------------------------


@given(cases(), MARGINS, st.sampled_from(["higher", "lower"]), SIDES)
@FEWER
def test_decisions_follow_from_the_bounds_and_from_nothing_else(case, margin, direction, alternative):
    result = case.compare(margin=margin, direction=direction, alternative=alternative)
    low, high = result.bounds.low, result.bounds.high
    if low is None:
        assert (result.non_inferior, result.equivalent) == (None, None)
        return
    best, worst = (1 / (1 + margin), 1 + margin) if result.estimand == "ratio" else (-margin, margin)
    if direction == "higher":
        expected = True if low > best else False if high < best else None
    else:
        expected = True if high < worst else False if low > worst else None

    assert result.non_inferior is expected
    assert result.equivalent is (True if best < low and high < worst else False if high < best or low > worst else None)


@given(cases(), st.sampled_from(["higher", "lower"]))
@FEWER
def test_a_wider_margin_is_never_harder_to_keep(case, direction):
    states = {True: 2, None: 1, False: 0}
    results = [case.compare(margin=margin, direction=direction) for margin in (0.05, 0.3, 0.9)]
    rest, equal = (
        [states[single] for single in result]
        for result in zip(*((r.non_inferior, r.equivalent) for r in results), strict=True)
    )

    assert rest == sorted(rest)
    assert equal == sorted(equal)
    assert all(single.non_inferior for single in results if single.equivalent)


@pytest.mark.parametrize(
    ("losses", "gains", "state"),
    [(0, 2, True), (3, 0, None), (60, 0, False)],
)
def test_a_margin_has_three_states(losses, gains, state):
    baseline = [1] * losses + [0] * gains + [1] * (100 - losses - gains)
    candidate = [0] * losses + [1] * gains + [1] * (100 - losses - gains)

    result = compare(candidate, baseline, margin=0.05)
    lower = compare(
        [1 - single for single in candidate], [1 - single for single in baseline], margin=0.05, direction="lower"
    )

    assert result.non_inferior is state
    assert lower.non_inferior is state
    assert compare(candidate, baseline).non_inferior is None
