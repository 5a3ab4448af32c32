"""Levels of numbers: cut at values that occur, whatever the numbers are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_crucible.features.slices.candidates import candidate_slices, features_of_values, find_features
from pytest_crucible.measures.fields import FEW_NUMBERS, number_levels, suggest_cuts

FLOATS = st.lists(st.floats() | st.integers(-3, 30).map(float) | st.just(0.0), max_size=60)


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ([0.0] * 93 + [1, 2, 3, 4, 5, 6, 7], ("below 1", "1 and above")),
        ([0.5] * 93 + [1, 2, 3, 4, 5, 6, 7], ("below 1", "1 and above")),
        ([9.0] * 93 + [1, 2, 3, 4, 5, 6, 7], ("below 9", "9 and above")),
        ([0.0] * 60 + list(range(1, 41)), ("below 16", "16 and above")),
        ([3.0] * 9, ("3",)),
        ([math.nan] * 9, ()),
        ([], ()),
        (range(8), ("below 2", "2 to 3", "4 to 5", "6 and above")),
    ],
)
def test_cuts_are_at_distinct_values(numbers, names):
    assert number_levels(np.array(numbers, dtype=float))[1] == names


@given(FLOATS)
@example([0.0] * 93 + [1, 2, 3, 4, 5, 6, 7])
def test_each_number_has_a_level_and_each_level_a_number(values):
    numbers = np.array(values, dtype=float)
    codes, names = number_levels(numbers)

    assert ((codes >= 0) == ~np.isnan(numbers)).all()
    assert sorted(set(codes[codes >= 0].tolist())) == list(range(len(names)))
    assert len(set(names)) == len(names)
    assert len(names) <= FEW_NUMBERS
    # Levels are in the order of the numbers.
    order = codes[np.argsort(numbers, kind="stable")]
    assert (np.diff(order[order >= 0]) >= 0).all()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=60))
def test_suggested_cuts_divide_what_can_be_divided(values):
    numbers = np.array(values)
    cuts = suggest_cuts(numbers)

    assert list(cuts) == sorted(set(cuts))
    if len(np.unique(numbers)) > 1:
        assert all(numbers.min() < cut <= numbers.max() for cut in cuts)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


@given(st.lists(ANY, max_size=50))
def test_values_of_any_type_make_features(values):
    for feature in features_of_values({"field": values}):
        assert len(feature.codes) == len(values)
        assert feature.codes.max(initial=-1) < len(feature.levels)


@pytest.mark.parametrize("nothing", [None, math.nan, ""])
def test_a_missing_value_does_not_make_numbers_texts(nothing):
    """A table's empty cell is NaN: a column of 30 numbers with one was not searched."""
    values = [nothing, *map(float, range(30))]

    [feature] = features_of_values({"age": values})
    assert feature.levels == ("below 8", "8 to 14", "15 to 21", "22 and above")
    assert feature.codes[0] == -1


def test_samples_without_metadata_have_features_of_their_texts():
    inputs = [f"tell me about cats{'!' * (i % 9)}" + " 5 " * max(0, i - 92) for i in range(100)]

    features = find_features(inputs, [None] * 100, [{}] * 100, {})
    assert "numbers in input" in [feature.name for feature in features]
    assert candidate_slices(features).names
