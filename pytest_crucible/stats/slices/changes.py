"""The change of an extreme from one arm to another: did the largest gap, the smallest ratio or the worst mean change?

Bounds of the change of an extreme that hold for every distribution between the ends: Gaffke's, for contrasts of means.
With D_p the contrasts of the first arm and C_q those of the second (see below), the excess is at least min_q (D_p - C_q) for
every p, and the bounds of the m contrasts D_p hold together at alpha / m. Which C_q is the largest is unknown but fixed, so that
all q may share one level. All means are over the same samples or clusters, which carry the pairing of the arms.

CR2's bounds err in up to 12 % at a nominal 5 % where replies collapse in one arm, these in at most 5 %
(tests/truth/test_slice_scores_truth.py).

With D_p the differences of all ordered pairs of slices in the new arm, and C_q those in the old one, the change is
max_p D_p - max_q C_q = max_p min_q (D_p - C_q) = min_q max_p (D_p - C_q). So its lower end is the largest, over p, of the smallest
lower bound of D_p - C_q over q, and its upper end the smallest, over q, of the largest upper bound. The test uses the
critical value of one arm's extreme: what they share, the one arm's pair that is held fixed, only makes them more alike. With two
slices it is the intersection-union test of |d| = |c|: both d - c and d + c must differ from 0, so that a gap that reverses has not
changed, and one that is 0 in both arms is found to have changed in far fewer than 5 % of runs (tests/truth/test_slices_truth.py).

Arms are compared on the same samples, so the covariance is that of all means of both arms: CR2 over the clusters, or samples. The
test is about arms whose extremes are equal; what is proven about a change is decided by Gaffke's bounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes, Range
from pytest_crucible.stats.means.differences import MeanContrast, UnitSums
from pytest_crucible.stats.slices.extremes import ExtremeBounds, bound_extreme
from pytest_crucible.stats.slices.slicing import ArmMeans, SliceMeans, Slicing, slice_means
from pytest_crucible.stats.studentized_range import studentized_range_critical, studentized_range_tail

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


def excess_of(kind: Changed, first: ArmMeans, second: ArmMeans, *, takes_smallest: bool) -> Excess:
    """Return the excess of a gap, of how much worse the worst slice is, or of minus the log of the smallest ratio."""
    if kind == "ratio":
        return _OfRatios(_ratio_bounds(first), _ratio_bounds(second))
    ours, theirs = (_contrasts_of(kind, arm, takes_smallest) for arm in (first, second))
    return _OfContrasts(ours, theirs, first.plus[0].bounds)


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


# Rows of D_p - C_q that are held at once: 60 slices have 3,540 ordered pairs in each arm.
_CHUNK = 500
# A variance of a difference below this part of the sum of variances is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The excess of the first arm's extreme over the second's.

    The extreme is the largest gap, minus the worst mean, or minus the log of the ratio.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    """A two-sided interval: one-sided bounds at half of alpha each. None for values without ends."""
    p_value: float | None = None
    """Of the CR2 test that the extremes are equal."""
    proof_p: float | None = None
    """Two-sided, of the bounds: it is below alpha where the interval excludes 0."""
    lower: float | None = None
    upper: float | None = None
    """One-sided bounds at alpha each."""
    error: float | None = None
    """The standard error that the interval is made of, towards 0: of several pairs that might be the extremes the largest."""


def arm_means(
    high: Sequence[Array], low: Sequence[Array], slicing: Slicing, clusters: Codes | None, bounds: Range
) -> ArmMeans:
    """Return the means of one arm for `change_of_extreme`: samples are clusters of their own if there are no others."""
    units = np.arange(len(slicing.codes)) if clusters is None else clusters

    def of(values: Array) -> SliceMeans:
        return slice_means(values, slicing, clusters=units, is_binary=False, bounds=bounds)

    plus = tuple(of(values) for values in high)
    return ArmMeans(
        plus=plus, minus=plus if all(a is b for a, b in zip(high, low, strict=True)) else tuple(map(of, low))
    )


def change_of_extreme(
    kind: Changed, first: ArmMeans, second: ArmMeans, *, alpha: float, takes_smallest: bool = True
) -> Change:
    """Return how much larger the first arm's extreme is than the second's; positive is a larger gap, or a worse slice.

    `takes_smallest` says which mean is the worst. Both arms must have the same clusters, in the same order. Without a rate in
    some slice of either arm the value is undefined.
    """
    arms = [_contrasts(kind, arm, takes_smallest) for arm in (first, second)]
    if any(not len(arm.values) or not np.isfinite(arm.values).all() for arm in arms):
        return Change(value=None)
    pair = _Pair(arms[0], arms[1], arms[0].parts.T @ arms[1].parts)
    slices, columns = len(first.plus[0].sizes), len(first.plus)
    critical = _critical(kind, alpha, slices, columns)
    value = float(arms[0].values.max() - arms[1].values.max())
    low, high = _lower_end(pair, critical), -_lower_end(pair.swap(), critical)
    change = Change(
        value=value,
        p_value=_p_value(kind, max(_statistic(pair), _statistic(pair.swap())), slices, columns),
        error=(value - low if value > 0 else high - value) / critical,
    )
    if not all(map(math.isfinite, first.plus[0].bounds)):
        return change
    above = excess_of(kind, first, second, takes_smallest=takes_smallest)
    below = above.swap()
    return replace(
        change,
        low=above.lower(alpha / 2),
        high=-below.lower(alpha / 2),
        lower=above.lower(alpha),
        upper=-below.lower(alpha),
        proof_p=min(1.0, 2 * min(above.p_value(), below.p_value())),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Contrasts:
    """All contrasts of an arm, whose largest is the extreme."""

    weights: Array
    """Contrasts x means: 1 and -1, of the means that extremes add and then of those that they subtract."""
    values: Array
    centres: Array
    parts: Array
    """Clusters x means: the root of the covariance of the means, without pseudo-clusters."""
    variances: Array
    """The variance of each contrast, with pseudo-clusters."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """The contrasts of both arms, and the covariance of their means. Pseudo-clusters of two arms are independent."""

    first: _Contrasts
    second: _Contrasts
    covariance: Array

    def swap(self) -> _Pair:
        return _Pair(self.second, self.first, self.covariance.T)

    def differences(self, rows: Codes) -> Array:
        """Return D_p - C_q for some p and all q."""
        return np.asarray(np.subtract.outer(self.first.centres[rows], self.second.centres))

    def errors(self, rows: Codes) -> Array:
        """Return the standard error of each D_p - C_q; 0 where it is rounding."""
        squares = np.add.outer(self.first.variances[rows], self.second.variances)
        variances = squares - 2 * self.first.weights[rows] @ self.covariance @ self.second.weights.T
        return np.sqrt(np.where(variances > _ROUNDING * squares, variances, 0.0))


def _contrasts(kind: Changed, arm: ArmMeans, takes_smallest: bool) -> _Contrasts:
    joints = [(side.means, side.joint) for side in (*arm.plus, *arm.minus) if side.joint is not None]
    sides = [(means, joint.centres, joint.contributions) for means, joint in joints]
    if kind == "ratio":
        # The smallest ratio is the largest difference of logarithms; errors by the delta method.
        with np.errstate(divide="ignore", invalid="ignore"):
            sides = [(np.log(means), np.log(centres), parts / centres) for means, centres, parts in sides]
    means, centres, parts = (np.concatenate(each, axis=-1) for each in zip(*sides, strict=True))
    weights = _weights(kind, len(arm.plus), len(arm.plus[0].sizes), takes_smallest)
    # A mean that is infinite or unknown makes every contrast that uses it so: 0 times it would be NaN everywhere.
    is_finite = np.isfinite(means) & np.isfinite(parts).all(axis=0)
    is_unknown = (weights[:, ~is_finite] != 0).any(axis=1)
    values, middles = (weights @ np.where(is_finite, each, 0.0) for each in (means, centres))
    parts = np.nan_to_num(parts)
    own = len(parts) - joints[0][1].pseudo_clusters
    return _Contrasts(
        weights=weights,
        values=np.where(is_unknown, math.nan, values),
        centres=middles,
        parts=parts[:own],
        variances=((weights @ (parts.T @ parts)) * weights).sum(axis=1),
    )


def _weights(kind: Changed, columns: int, slices: int, takes_smallest: bool) -> Array:
    """Return the weights of all contrasts: of each column on its own means, first those added, then those subtracted."""
    if kind == "worst":
        # The end that makes a slice worse or better is the same for all: lost samples of `plus` are at it.
        plus, minus = np.eye(slices) * (-1.0 if takes_smallest else 1.0), np.zeros((slices, slices))
    else:
        i, j = np.array(list(itertools.permutations(range(slices), 2))).T
        plus, minus = np.eye(slices)[i], np.eye(slices)[j]
    return np.hstack((np.kron(np.eye(columns), plus), -np.kron(np.eye(columns), minus)))


def _critical(kind: Changed, alpha: float, slices: int, columns: int) -> float:
    """Return the critical value of one arm's extreme: Tukey's for pairs; for single slices that of k slices."""
    share = alpha / columns
    if kind == "worst":
        return -float(ndtri(share / (2 * slices)))
    return studentized_range_critical(share, slices, math.inf) / math.sqrt(2)


def _p_value(kind: Changed, statistic: float, slices: int, columns: int) -> float:
    if kind == "worst":
        return min(1.0, 2 * slices * columns * float(ndtr(-statistic)))
    return min(1.0, columns * studentized_range_tail(statistic * math.sqrt(2), slices, math.inf))


def _statistic(pair: _Pair) -> float:
    """Return the largest critical value at which the first extreme is still proven larger; 0 if it is at none."""
    largest = 0.0
    for rows in _chunks(len(pair.first.centres)):
        differences, errors = pair.differences(rows), pair.errors(rows)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(errors > 0, differences / errors, np.where(differences > 0, math.inf, -math.inf))
        largest = max(largest, float(z.min(axis=1).max()))
    return largest


def _lower_end(pair: _Pair, critical: float) -> float:
    return max(
        float((pair.differences(rows) - critical * pair.errors(rows)).min(axis=1).max())
        for rows in _chunks(len(pair.first.centres))
    )


def _chunks(count: int) -> list[Codes]:
    return [np.arange(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlicedColumns:
    """One arm's metrics, one entry a sample; NaN if a metric does not apply to a sample."""

    metrics: tuple[str, ...]
    plus: tuple[Array, ...]
    """Scores as observed, or with the lost samples where they make the statistic extreme."""
    minus: tuple[Array, ...]
    slicing: Slicing
    clusters: Codes | None
    binary: tuple[bool, ...]
    bounds: tuple[Range, ...]
    takes_smallest: bool = True
    """Whether the worst slice is the one with the smallest mean."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.slicing.names

    def means(self, values: tuple[Array, ...]) -> tuple[SliceMeans, ...]:
        """Return the means of `plus` or `minus` by slice."""
        return tuple(
            slice_means(column, self.slicing, clusters=self.clusters, is_binary=binary, bounds=bounds)
            for column, binary, bounds in zip(values, self.binary, self.bounds, strict=True)
        )

    def both_means(self) -> tuple[tuple[SliceMeans, ...], tuple[SliceMeans, ...]]:
        plus = self.means(self.plus)
        return plus, plus if self._is_observed() else self.means(self.minus)

    def arm(self) -> ArmMeans:
        """Return the means for a comparison with the other arm: clusters, or samples, carry the pairing."""
        # One range for all metrics: the widest, which only adds to the errors of narrower ones.
        bounds = min(low for low, _ in self.bounds), max(high for _, high in self.bounds)
        # The same arrays, so that their means are computed once.
        minus = self.plus if self._is_observed() else self.minus
        return arm_means(self.plus, minus, self.slicing, self.clusters, bounds)

    def _is_observed(self) -> bool:
        return all(
            plus is minus or np.array_equal(plus, minus, equal_nan=True)
            for plus, minus in zip(self.plus, self.minus, strict=True)
        )
