"""Bounds of the change of an extreme that hold for every distribution between the ends: Gaffke's, for contrasts of means.

With D_p the contrasts of the first arm and C_q those of the second (`changes`), the excess is at least min_q (D_p - C_q) for
every p, and the bounds of the m contrasts D_p hold together at alpha / m. Which C_q is the largest is unknown but fixed, so that
all q may share one level. All means are over the same samples or clusters, which carry the pairing of the arms.

CR2's bounds err in up to 12 % at a nominal 5 % where replies collapse in one arm, these in at most 5 %
(tests/truth/test_slice_scores_truth.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol

import numpy as np

from pytest_crucible.stats.arrays import Array, Range
from pytest_crucible.stats.means.differences import MeanContrast, UnitSums
from pytest_crucible.stats.slices.extremes import ExtremeBounds, bound_extreme
from pytest_crucible.stats.slices.slicing import ArmMeans

Changed = Literal["gap", "ratio", "worst"]
# Contrasts of the other arm that could be its extreme: 60 slices have 3,540, few of which are near it.
_RIVALS = 60
# Levels at which a ratio is tried: its p-value is rounded up to one of them.
_LEVELS = (0.025, 0.01, 0.005, 0.001, 1e-4, 1e-6)

_Terms = Sequence[tuple[float, UnitSums]]


class Excess(Protocol):
    """The amount by which one arm's extreme exceeds the other's."""

    def lower(self, alpha: float) -> float:
        """Return the lower bound, at a one-sided alpha."""

    def p_value(self) -> float:
        """Return the smallest alpha at which the lower bound is above 0."""

    def swap(self) -> Excess:
        """Return the excess of the other arm."""


@dataclass(frozen=True, slots=True, eq=False)
class _OfContrasts:
    """The largest of all contrasts of both arms."""

    first: Sequence[_Terms]
    second: Sequence[_Terms]
    bounds: Range

    def lower(self, alpha: float) -> float:
        share, smallest = alpha / len(self.first), math.inf
        for contrast in self._contrasts():
            # One test shows that a bound is above the smallest one, which takes seven to compute.
            if math.isinf(smallest) or contrast.p_value(smallest) > share:
                smallest = min(smallest, contrast.lower_bound(share))
        return smallest

    def p_value(self) -> float:
        return min(1.0, len(self.first) * max(contrast.p_value(0.0) for contrast in self._contrasts()))

    def swap(self) -> _OfContrasts:
        return _OfContrasts(self.second, self.first, self.bounds)

    def _contrasts(self) -> list[MeanContrast]:
        """Return the first arm's largest contrast minus each one that could be the second arm's."""
        largest = self.first[int(np.argmax(_values(self.first)))]
        rivals = np.argsort(-_values(self.second), kind="stable")[:_RIVALS].tolist()
        terms = [(*largest, *((-factor, units) for factor, units in self.second[rival])) for rival in rivals]
        return [
            MeanContrast([units for _, units in each], [factor for factor, _ in each], self.bounds, True)
            for each in terms
        ]


@dataclass(frozen=True, slots=True, eq=False)
class _OfRatios:
    """The log of the second arm's smallest ratio minus that of the first's: each arm's bound has half of alpha."""

    first: Callable[[float], ExtremeBounds]
    second: Callable[[float], ExtremeBounds]
    """Return the bounds of an arm's ratio at an alpha."""

    def lower(self, alpha: float) -> float:
        ours, theirs = self.first(alpha / 2).upper, self.second(alpha / 2).lower
        if not theirs or ours is None or math.isinf(ours):
            return -math.inf
        return math.log(theirs) - math.log(ours)

    def p_value(self) -> float:
        proven = itertools.takewhile(lambda alpha: self.lower(alpha) > 0, _LEVELS)
        return min(proven, default=1.0)

    def swap(self) -> _OfRatios:
        return _OfRatios(self.second, self.first)


def excess_of_contrasts(kind: Changed, first: ArmMeans, second: ArmMeans, *, takes_smallest: bool) -> Excess:
    """Return the excess of a gap, or of how much worse the worst slice is."""
    ours, theirs = (_contrasts_of(kind, arm, takes_smallest) for arm in (first, second))
    return _OfContrasts(ours, theirs, first.plus[0].bounds)


def excess_of_ratios(first: ArmMeans, second: ArmMeans) -> Excess:
    """Return the excess of minus the log of the smallest ratio."""
    return _OfRatios(_ratio_bounds(first), _ratio_bounds(second))


def _ratio_bounds(arm: ArmMeans) -> Callable[[float], ExtremeBounds]:
    # Both directions of a change, and its p-value, ask for the same bounds.
    return cache(lambda alpha: bound_extreme("ratio", arm.plus, arm.minus, alpha=alpha))


def _contrasts_of(kind: Changed, arm: ArmMeans, takes_smallest: bool) -> list[_Terms]:
    if kind == "worst":
        sign = -1.0 if takes_smallest else 1.0
        return [((sign, units),) for column in arm.plus for units in column.units]
    return [
        ((1.0, plus.units[i]), (-1.0, minus.units[j]))
        for plus, minus in zip(arm.plus, arm.minus, strict=True)
        for i, j in itertools.permutations(range(len(plus.units)), 2)
    ]


def _values(contrasts: Sequence[_Terms]) -> Array:
    return np.array([sum(factor * units.mean for factor, units in terms) for terms in contrasts])
