"""Questions in an order: what they have in common with closed testing, and that alpha is kept."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from pytest_crucible.stats.multiplicity.adjust import adjust
from pytest_crucible.stats.multiplicity.gatekeeping import fixed_sequence, intersection_union, serial_gatekeeping
from pytest_crucible.stats.multiplicity.graphical import adjust_by_graph, parallel_gatekeeping

P = st.one_of(st.sampled_from([0.0, 0.01, 0.02, 0.04, 0.05, 1.0]), st.floats(0, 1))


def flat(families):
    return list(itertools.chain.from_iterable(families))


FAMILY = st.lists(P, min_size=1, max_size=4)


def test_a_fixed_sequence_stops_at_the_first_failure():
    assert fixed_sequence([0.01, 0.2, 0.001]) == [0.01, 0.2, 0.2]
    assert fixed_sequence([]) == []


def test_a_missing_p_value_closes_the_gate_behind_it():
    assert fixed_sequence([0.01, None, 0.001]) == [0.01, None, 1.0]
    assert serial_gatekeeping([[0.01, None], [0.001]]) == [[0.02, None], [1.0]]
    assert serial_gatekeeping([[0.01, None], [0.001]], within="all") == [[1.0, None], [1.0]]
    assert intersection_union([0.01, None]) is None
    assert parallel_gatekeeping([[0.01, None], [0.01]]) == [[0.02, None], [0.02]]


def test_all_must_pass_needs_no_correction():
    assert intersection_union([0.04, 0.05, 0.01]) == 0.05
    with pytest.raises(ValueError, match="0 p-values: expected at least 1"):
        intersection_union([])


@given(st.lists(FAMILY, min_size=1, max_size=4))
def test_a_later_family_is_never_easier_than_the_worst_of_an_earlier_one(families):
    adjusted = serial_gatekeeping(families)
    for family, own in zip(families, adjusted, strict=True):
        assert all(p >= q for p, q in zip(own, adjust(family), strict=True))
    for earlier, later in itertools.pairwise(adjusted):
        assert min(later) >= max(earlier)
    assert adjusted[0] == adjust(families[0])


@given(st.lists(P, min_size=1, max_size=6))
def test_families_of_one_are_a_fixed_sequence(p_values):
    single = [[p] for p in p_values]

    assert flat(serial_gatekeeping(single)) == fixed_sequence(p_values)
    assert flat(parallel_gatekeeping(single)) == pytest.approx(fixed_sequence(p_values))


@given(FAMILY)
def test_the_complete_graph_is_holm(p_values):
    n = len(p_values)
    transfers = (np.ones((n, n)) - np.eye(n)) / max(n - 1, 1)

    assert adjust_by_graph(p_values, [1 / n] * n, transfers) == pytest.approx(adjust(p_values), rel=1e-9)
    assert parallel_gatekeeping([p_values])[0] == pytest.approx(adjust(p_values), rel=1e-9)


@given(st.data())
def test_a_graph_decides_as_its_weighted_closed_test(data):
    """Bretz et al. 2009: weighted Bonferroni over each set that is still open, with the weights that the graph gives."""
    n = data.draw(st.integers(2, 4))
    parts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n)), dtype=float).reshape(n, n)
    np.fill_diagonal(parts, 0)
    transfers = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1) * 0.95
    start = np.array(data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)), dtype=float)
    shares = start / start.sum()
    p_values = data.draw(st.lists(st.floats(0.0001, 1), min_size=n, max_size=n))

    def weights(open_):
        share, gives, left = shares.copy(), transfers.copy(), set(range(n))
        for gone in range(n):
            if gone not in open_:
                left.remove(gone)
                new = np.zeros((n, n))
                for one, other in itertools.permutations(left, 2):
                    loop = gives[one, gone] * gives[gone, one]
                    new[one, other] = (gives[one, other] + gives[one, gone] * gives[gone, other]) / (1 - loop)
                for one in left:
                    share[one] += share[gone] * gives[gone, one]
                gives = new
        return share

    sets = [chosen for size in range(n) for chosen in itertools.combinations(range(n), size + 1)]
    by_set = {chosen: weights(chosen) for chosen in sets}
    expected = [
        min(1.0, max(min(p_values[j] / by_set[chosen][j] for j in chosen) for chosen in sets if i in chosen))
        for i in range(n)
    ]

    assert adjust_by_graph(p_values, shares, transfers) == pytest.approx(expected, rel=1e-9)


def test_parallel_families_open_by_what_was_proven():
    """One of two proven opens the next family with half of alpha; nothing proven leaves it closed."""
    assert parallel_gatekeeping([[0.01, 0.9], [0.02]]) == [[0.02, 1.0], [0.04]]
    assert parallel_gatekeeping([[0.9, 0.9], [0.0]])[1] == [1.0]
    assert parallel_gatekeeping([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize("effects", [(0, 0, 0, 0), (4, 4, 0, 0), (3, 0, 3, 0)])
def test_false_alarms_stay_within_alpha(effects, correlation):
    """2,000 experiments: 5 % +- 0.5 %, so that 6.5 % would be three standard errors too many."""
    rng, alpha, runs = np.random.default_rng(5), 0.05, 2000
    means = np.array(effects, dtype=float)
    shared, own = (
        np.sqrt(correlation) * rng.normal(size=(runs, 1)),
        np.sqrt(1 - correlation) * rng.normal(size=(runs, 4)),
    )
    p_values = ndtr(-(means + shared + own)).tolist()
    for procedure in (
        lambda p: flat(serial_gatekeeping([p[:2], p[2:]])),
        lambda p: flat(serial_gatekeeping([p[:2], p[2:]], within=["all", "hommel"])),
        lambda p: flat(parallel_gatekeeping([p[:2], p[2:]])),
        fixed_sequence,
    ):
        false = sum(
            any(q <= alpha and not effect for q, effect in zip(procedure(p), effects, strict=True)) for p in p_values
        )

        assert false / runs <= 0.065


def test_what_is_no_gate_is_refused():
    with pytest.raises(ValueError, match="2 families need 1 or 2 methods in within, not 1"):
        serial_gatekeeping([[0.1], [0.2]], within=["holm"])
    with pytest.raises(ValueError, match="not 'BH'"):
        serial_gatekeeping([[0.1]], within="BH")
    with pytest.raises(ValueError, match="family 2 of 2 is empty: leave it out"):
        parallel_gatekeeping([[0.1], []])
    with pytest.raises(ValueError, match="outside"):
        fixed_sequence([0.1, 1.5])
    with pytest.raises(ValueError, match="2 p-values need 2 shares and 2 x 2 transfers"):
        adjust_by_graph([0.1, 0.2], [1.0], np.zeros((2, 2)))
    with pytest.raises(ValueError, match="sum to at most 1"):
        adjust_by_graph([0.1, 0.2], [0.7, 0.7], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"a diagonal of 0 and rows that sum to at most 1, not \[1.0, 0.0\]"):
        adjust_by_graph([0.1, 0.2], [0.5, 0.5], [[0.5, 0.5], [0, 0]])
