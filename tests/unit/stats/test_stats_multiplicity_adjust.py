"""Corrections for many p-values: by their definitions, and the laws that order them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.stats.multiplicity import adjust, holm

METHODS = ["bonferroni", "holm", "BH"]
CLOSE = 1 + 1e-12
SHARES = st.one_of(st.sampled_from([0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 1.0]), st.floats(0, 1))
FAMILIES = st.lists(SHARES, min_size=1, max_size=8)


def close_test(p_values, test):
    """Closed testing: the largest p-value over every set of hypotheses that holds this one."""
    everyone = range(len(p_values))
    sets = [chosen for size in everyone for chosen in itertools.combinations(everyone, size + 1)]
    return [min(1.0, max(test([p_values[j] for j in chosen]) for chosen in sets if i in chosen)) for i in everyone]


@given(FAMILIES)
def test_holm_is_the_closed_test_by_bonferroni(p_values):
    assert adjust(p_values, "holm") == pytest.approx(
        close_test(p_values, lambda chosen: len(chosen) * min(chosen)), rel=1e-12, abs=0
    )


@given(FAMILIES, st.sampled_from([0.01, 0.05, 0.2]))
def test_benjamini_hochberg_rejects_up_to_the_last_p_value_below_its_line(p_values, alpha):
    ordered, n = sorted(p_values), len(p_values)
    limits = [alpha * rank / n for rank in range(1, n + 1)]
    largest = max((p for p, limit in zip(ordered, limits, strict=True) if p <= limit), default=-1.0)
    near = any(math.isclose(p, limit, rel_tol=1e-9) for p, limit in zip(ordered, limits, strict=True))

    assert near or [p <= alpha for p in adjust(p_values, "BH")] == [p <= largest for p in p_values]


@given(FAMILIES, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_adjusted_p_values_keep_the_order_and_follow_a_permutation(p_values, method, random):
    adjusted, places = adjust(p_values, method), list(range(len(p_values)))
    random.shuffle(places)

    assert adjust([p_values[place] for place in places], method) == [adjusted[place] for place in places]
    for single, other in itertools.combinations(range(len(p_values)), 2):
        if p_values[single] <= p_values[other]:
            assert adjusted[single] <= adjusted[other] * CLOSE
    assert all(p <= q * CLOSE and q <= 1 for p, q in zip(p_values, adjusted, strict=True))


@given(FAMILIES, st.sampled_from(METHODS), st.integers(0, 4))
def test_questions_without_a_p_value_count_as_one_when_they_were_asked(p_values, method, unmeasured):
    question = adjust([*p_values, *[1.0] * unmeasured], method)[: len(p_values)]

    assert adjust(p_values, method, family_size=len(p_values) + unmeasured) == pytest.approx(question, rel=1e-12, abs=0)
    assert adjust([None, *p_values], method) == [None, *adjust(p_values, method)]


@pytest.mark.parametrize("method", METHODS)
def test_one_p_value_needs_no_correction_and_none_gives_none(method):
    assert adjust([0.03], method) == [0.03]
    assert adjust([], method) == []
    assert adjust([None, None], method) == [None, None]


def test_the_smallest_p_values_keep_their_digits():
    assert adjust([1e-300, 0.5, 1.0], "holm")[0] == 3e-300
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
