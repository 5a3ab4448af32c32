"""Levels of a field of numbers: its values where they are few, otherwise its quartiles, cut at values that occur."""

from __future__ import annotations

import itertools

import numpy as np

from pytest_crucible.records.slices import shortest
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.slices.slicing import NO_SLICE

# A number with at most this many values is used value by value.
FEW_NUMBERS = 6
# Floats from here on hold no fractions: that they are whole says nothing about the field, and their digits are noise.
_WHOLE = 2.0**53


def number_levels(numbers: Array) -> tuple[Codes, tuple[str, ...]]:
    """Return the level of each number and the names of the levels. NaN has no level.

    >>> number_levels(np.array([0.0] * 93 + [1, 2, 3, 4, 5, 6, 7]))[1]
    ('below 1', '1 and above')
    """
    is_number = ~np.isnan(numbers)
    present = numbers[is_number]
    values = np.unique(present)
    if len(values) <= FEW_NUMBERS:
        names, codes = tuple(map(shortest, values.tolist())), np.searchsorted(values, numbers)
    else:
        cuts = _quartile_cuts(present, values)
        names, codes = _range_names(values, cuts), np.searchsorted(cuts, numbers, side="right")
    return np.where(is_number, codes, NO_SLICE).astype(np.intp), names


def _quartile_cuts(numbers: Array, values: Array) -> Array:
    """Return at most three cuts, each at a value that occurs; `values` are the distinct ones, in order."""
    cuts = np.unique(np.quantile(numbers, (0.25, 0.5, 0.75), method="higher"))
    # Below the lowest value there is nothing. Where it is more than three quarters of all, no other cut is left.
    cuts = cuts[cuts > values[0]]
    return cuts if len(cuts) else values[1:2]


def _range_names(values: Array, cuts: Array) -> tuple[str, ...]:
    texts = list(map(shortest, cuts.tolist()))
    if bool((values == np.round(values)).all()) and np.abs(values).max() < _WHOLE:
        whole = [(int(low), int(high) - 1) for low, high in itertools.pairwise(cuts.tolist())]
        between = [str(low) if low == high else f"{low} to {high}" for low, high in whole]
    else:
        between = [f"{low} to below {high}" for low, high in itertools.pairwise(texts)]
    return (f"below {texts[0]}", *between, f"{texts[-1]} and above")
