"""Corrections for many p-values: by their definitions, and the laws that order them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats import multiplicity as adjust
from pytest_crucible.stats.multiplicity import holm

METHODS = ["bonferroni", "holm", "hochberg", "hommel", "BH", "BY"]
CLOSE = 1 + 1e-12
SHARES = st.one_of(st.sampled_from([0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 1.0]), st.floats(0, 1))
FAMILIES = st.lists(SHARES, min_size=1, max_size=8)


def simes(p_values):
    ordered = sorted(p_values)
    return min(len(ordered) * p / rank for rank, p in enumerate(ordered, 1))


def closed(p_values, test):
    """Closed testing: the largest p-value over every set of hypotheses that holds this one."""
    everyone = range(len(p_values))
    sets = [chosen for size in everyone for chosen in itertools.combinations(everyone, size + 1)]
    return [min(1.0, max(test([p_values[j] for j in chosen]) for chosen in sets if i in chosen)) for i in everyone]


@given(FAMILIES)
def test_hommel_is_the_closed_test_by_simes_and_holm_the_one_by_bonferroni(p_values):
    assert adjust(p_values, "hommel") == pytest.approx(closed(p_values, simes), rel=1e-12, abs=0)
    assert adjust(p_values, "holm") == pytest.approx(
        closed(p_values, lambda chosen: len(chosen) * min(chosen)), rel=1e-12, abs=0
    )


@given(FAMILIES, st.sampled_from([0.01, 0.05, 0.2]))
def test_step_up_decisions_are_those_of_their_definitions(p_values, alpha):
    ordered, n = sorted(p_values), len(p_values)
    harmonic = sum(1 / rank for rank in range(1, n + 1))
    limits = {
        "hochberg": lambda rank: alpha / (n - rank + 1),
        "BH": lambda rank: alpha * rank / n,
        "BY": lambda rank: alpha * rank / n / harmonic,
    }
    for method, limit in limits.items():
        passing = [ordered[rank - 1] for rank in range(1, n + 1) if ordered[rank - 1] <= limit(rank)]
        largest = max(passing, default=-1.0)
        near = any(math.isclose(ordered[rank - 1], limit(rank), rel_tol=1e-9) for rank in range(1, n + 1))

        assert near or [p <= alpha for p in adjust(p_values, method)] == [p <= largest for p in p_values]


@given(FAMILIES)
def test_the_methods_are_ordered(p_values):
    bonferroni, by_holm, hochberg, hommel, bh, by = (adjust(p_values, method) for method in METHODS)
    for smaller, larger in [(by_holm, bonferroni), (hochberg, by_holm), (hommel, hochberg), (bh, by), (bh, hommel)]:
        assert all(one <= CLOSE * other for one, other in zip(smaller, larger, strict=True))


@given(FAMILIES, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_adjusted_p_values_keep_the_order_and_follow_a_permutation(p_values, method, random):
    adjusted, places = adjust(p_values, method), list(range(len(p_values)))
    random.shuffle(places)

    assert adjust([p_values[place] for place in places], method) == [adjusted[place] for place in places]
    for one, other in itertools.combinations(range(len(p_values)), 2):
        if p_values[one] <= p_values[other]:
            assert adjusted[one] <= adjusted[other] * CLOSE
    assert all(p <= q * CLOSE and q <= 1 for p, q in zip(p_values, adjusted, strict=True))


@given(FAMILIES, st.sampled_from(METHODS), st.integers(0, 4))
def test_questions_without_a_p_value_count_as_one_when_they_were_asked(p_values, method, unmeasured):
    asked = adjust([*p_values, *[1.0] * unmeasured], method)[: len(p_values)]

    assert adjust(p_values, method, family_size=len(p_values) + unmeasured) == pytest.approx(asked, rel=1e-12, abs=0)
    assert adjust([None, *p_values], method) == [None, *adjust(p_values, method)]


@pytest.mark.parametrize("method", METHODS)
def test_one_p_value_needs_no_correction_and_none_gives_none(method):
    assert adjust([0.03], method) == [0.03]
    assert adjust([], method) == []
    assert adjust([None, None], method) == [None, None]


def test_the_smallest_p_values_keep_their_digits():
    assert adjust([1e-300, 0.5, 1.0], "hommel")[0] == 3e-300
    assert adjust([0.0, 0.5], "BH") == [0.0, 0.5]


def test_what_is_no_family_is_refused():
    for method in METHODS:
        with pytest.raises(ValueError, match="1 of 2 p-values lie outside"):
            adjust([0.1, 1.2], method)
        with pytest.raises(ValueError, match="1 of 1 p-values lie outside"):
            adjust([math.nan], method)
        with pytest.raises(ValueError, match="family of 1 cannot have 2"):
            adjust([0.1, 0.2], method, family_size=1)
    with pytest.raises(ValueError, match="not 'sidak'"):
        adjust([0.1], "sidak")


def test_holm_is_the_default():
    assert adjust([0.01, 0.04, 0.03]) == holm([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]


def test_a_thousand_p_values_by_hommel_are_those_of_its_quadratic_definition():
    p_values = [(i * 0.6180339887498949 % 1) ** 3 for i in range(1, 301)]
    ordered, n = sorted(p_values), len(p_values)
    expected = dict.fromkeys(ordered, 0.0)
    for m in range(1, n + 1):  # Wright 1992: the loop that R's p.adjust runs
        c = min(m * ordered[n - m + k] / (k + 1) for k in range(m))
        for rank, p in enumerate(ordered):
            expected[p] = max(expected[p], c if rank >= n - m else min(c, m * p))

    assert adjust(p_values, "hommel") == pytest.approx([expected[p] for p in p_values], rel=1e-12)


def test_methods_are_found_in_either_case():
    assert adjust([0.01, 0.04], "bh") == adjust([0.01, 0.04], "BH")
