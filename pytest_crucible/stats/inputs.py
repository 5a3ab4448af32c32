"""Checked values with their metric's declaration: kind, bounds and clusters."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    Array,
    Codes,
    Labels,
    Range,
    check_choice,
    cluster_codes,
    difference,
    finite,
    is_constant,
    paired_arrays,
)
from pytest_crucible.stats.exact_sums import exact_sum
from pytest_crucible.stats.means.moments import Spread, check_enough
from pytest_crucible.stats.means.units import UnitRows, check_clusters, rows_of_clusters, rows_of_values
from pytest_crucible.stats.resampling.draws import UNSEEDED, Keys, MonteCarlo, Units, group_units

Flags = npt.NDArray[np.bool_]


def beyond_reach(candidate: Array, baseline: Array, reach: float) -> Flags:
    """Return which pairs differ by more than the reach. A pair without a number does not.

    >>> beyond_reach(np.array([0.3, 0.9]), np.array([0.1, 0.5]), 0.2).tolist()
    [False, True]
    """
    with np.errstate(invalid="ignore"):
        change = np.abs(candidate - baseline)
        # 0.8 - 0.55 is 2e-16 more than 0.25, and averaged repeats round, too.
        rounding = 1e-9 * reach + 8 * np.finfo(np.float64).eps * np.maximum(np.abs(candidate), np.abs(baseline))
        # A lost value may be infinite.
        return np.asarray(np.isinf(change) | (change > reach + rounding))


def check_reach(reach: float) -> float:
    """Return the reach. Raises ValueError unless it is a positive finite number."""
    if not 0 < reach < math.inf:
        raise ValueError(f"reach={reach!r} must be a positive number: the largest change of one pair that is possible")
    return float(reach)


Kind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded"]
"""In this order: yes or no; a few ordered levels; a score between known ends; a count; latency or cost; any number."""
Scale = Literal["binary", "bounded", "unbounded"]
"""The property that chooses the method: 0/1 values, both ends known, or not."""

OPEN: Range = (-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Checked values of one arm, or differences of two arms. `bounds` are those of the values."""

    values: Array
    kind: Kind
    bounds: Range
    clusters: Codes | None

    @property
    def scale(self) -> Scale:
        return scale_of(self.kind, self.bounds)

    @property
    def size(self) -> int:
        return self.values.size

    @cached_property
    def mean(self) -> float | None:
        return mean(self.values) if self.values.size else None

    @property
    def is_constant(self) -> bool:
        return is_constant(self.values)

    @property
    def signs(self) -> tuple[int, int]:
        """The numbers of values above and below 0."""
        return int((self.values > 0).sum()), int((self.values < 0).sum())

    @cached_property
    def spread(self) -> Spread:
        return Spread.of(self.values)

    @cached_property
    def units(self) -> UnitRows:
        """The values, or the groups, in no order. Raises NotEnoughData below two values, or five groups."""
        if self.clusters is None:
            return rows_of_values(check_enough(self.values))
        check_clusters(self.groups or 0)
        return rows_of_clusters(self.values, self.clusters)

    def blocks(self, keys: Keys | None) -> Units:
        """Return the units that a permutation test moves as a whole."""
        return group_units(self.values, self.clusters, keys)

    @cached_property
    def groups(self) -> int | None:
        """Number of clusters, or None when the values are independent."""
        return None if self.clusters is None else np.unique(self.clusters).size

    @property
    def labels(self) -> Codes:
        """Cluster numbers; independent values are their own clusters."""
        return np.arange(self.values.size) if self.clusters is None else self.clusters


def mean(values: Array) -> float:
    """Return the mean, kept between the smallest and the largest value: rounding could move it beyond them.

    >>> mean(np.array([0.1, 0.1, 0.1])), float(np.mean([0.1, 0.1, 0.1]))
    (0.1, 0.10000000000000002)
    """
    # The sum of equal floats, divided by their number, need not be that float.
    return keep_between(exact_sum(values) / values.size, float(values.min()), float(values.max()))


def keep_between(mean: float, low: float, high: float) -> float:
    """Return a mean that rounding moves no further than the values."""
    return min(max(mean, low), high)


def scale_of(kind: Kind, bounds: Range) -> Scale:
    """Return the scale: an infinite end makes any kind unbounded, and `unbounded` stays so for any ends.

    >>> scale_of("ordinal", (1, 5)), scale_of("positive", (0, math.inf))
    ('bounded', 'unbounded')
    """
    if kind == "binary":
        return "binary"
    finite_ends = math.isfinite(bounds[0]) and math.isfinite(bounds[1])
    return "bounded" if finite_ends and kind != "unbounded" else "unbounded"


def declare_arm(values: npt.ArrayLike, *, kind: Kind, bounds: Range, clusters: Labels | None) -> Observed:
    """Check one arm. Raises ValueError for NaN, for values out of bounds and for missing cluster labels."""
    kind, bounds, (array,) = apply_kind(kind, bounds, finite(values))
    return Observed(values=array, kind=kind, bounds=bounds, clusters=_codes(clusters, array.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Two arms with one declaration. `differences` are candidate - baseline, of pairs only."""

    candidate: Observed
    baseline: Observed
    differences: Observed | None
    keys: Keys | None = None
    """A hash of each pair's id, by which more than 2,000 pairs are joined into blocks; None: of its position."""
    monte_carlo: MonteCarlo = UNSEEDED

    @property
    def pairs(self) -> Observed:
        """The differences, for the methods of pairs."""
        assert self.differences is not None, "the table gives paired methods to pairs only"
        return self.differences

    @property
    def scale(self) -> Scale:
        """The scale of what is compared: a reach gives differences ends that the values do not have."""
        return self.candidate.scale if self.differences is None else self.differences.scale

    @property
    def bounds(self) -> Range:
        """The bounds of a difference."""
        if self.differences is not None:
            return self.differences.bounds
        low, high = self.candidate.bounds
        return low - high, high - low

    @property
    def clustered(self) -> bool:
        return self.candidate.clusters is not None

    @property
    def groups(self) -> int | None:
        """Number of clusters in both arms together, or None when the values are independent."""
        if self.differences is not None:
            return self.differences.groups
        codes = [arm.clusters for arm in (self.candidate, self.baseline) if arm.clusters is not None]
        return int(max(own.max(initial=-1) for own in codes)) + 1 if codes else None


def declare_pairs(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: Labels | None,
    reach: float | None = None,
) -> Arms:
    """Check two arms that are paired by position; no pair differs by more than `reach`, if it is given.

    Raises ValueError as `declare_arm`, for unequal lengths, and for a pair beyond the reach.
    """
    kind, bounds, (first, second) = apply_kind(
        kind, bounds, *paired_arrays(candidate, baseline, names=("candidate", "baseline"))
    )
    codes = _codes(clusters, first.size)
    ours, theirs = (Observed(values=values, kind=kind, bounds=bounds, clusters=codes) for values in (first, second))
    check_pairs_reach(first, second, reach)
    kind_of_differences, ends = shape_of_differences(kind, bounds, reach)
    differences = difference(first, second)
    if reach is not None:
        differences = np.clip(differences, *ends)
    observed = Observed(values=differences, kind=kind_of_differences, bounds=ends, clusters=codes)
    return Arms(candidate=ours, baseline=theirs, differences=observed)


def check_pairs_reach(first: Array, second: Array, reach: float | None) -> None:
    """Raise ValueError if pairs differ by more than the reach."""
    if reach is None:
        return
    beyond = int(beyond_reach(first, second, check_reach(reach)).sum())
    if beyond:
        raise ValueError(f"{beyond} of {first.size} pairs differ by more than reach={reach:g}: correct either")


def shape_of_differences(kind: Kind, bounds: Range, reach: float | None) -> tuple[Kind, Range]:
    """Return kind and bounds of the differences of pairs."""
    ends = bounds[0] - bounds[1], bounds[1] - bounds[0]
    if reach is None:
        return kind, ends
    return "bounded" if kind == "unbounded" else kind, (max(ends[0], -reach), min(ends[1], reach))


def declare_arms(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: tuple[Labels, Labels] | None,
) -> Arms:
    """Check two independent arms; an equal cluster label in both arms is the same cluster.

    Raises ValueError as `declare_arm`.
    """
    both = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    kind, bounds, (first, second) = apply_kind(kind, bounds, *both)
    codes = (None, None) if clusters is None else _joint_codes(clusters, (first.size, second.size))
    ours, theirs = (
        Observed(values=values, kind=kind, bounds=bounds, clusters=own)
        for values, own in zip((first, second), codes, strict=True)
    )
    return Arms(candidate=ours, baseline=theirs, differences=None)


def _joint_codes(clusters: tuple[Labels, Labels], sizes: tuple[int, int]) -> tuple[Codes, Codes]:
    for labels, size in zip(clusters, sizes, strict=True):
        # Each arm is checked alone: two wrong lengths could add up to the right total.
        cluster_codes(labels, size)
    # Numbering the labels of both arms together makes equal labels the same cluster.
    codes, _ = cluster_codes([label for labels in clusters for label in labels], sum(sizes))
    return codes[: sizes[0]], codes[sizes[0] :]


def infer_kind(bounds: Range | None, *arms: Array) -> Kind:
    """Infer the kind from the values of *all* arms. The estimand, a mean, is the same for every kind.

    >>> infer_kind(None, np.array([0.0, 1.0]), np.array([1.0, 1.0])), infer_kind((0, 5), np.array([0.0, 1.0]))
    ('binary', 'bounded')
    """
    values = np.concatenate(arms)
    bounds = None if bounds is None else check_bounds(bounds)
    # Zeros and ones on declared bounds other than (0, 1) are scores that happen to be extreme.
    if bounds in (None, (0, 1)) and values.size and np.isin(values, (0.0, 1.0)).all():
        return "binary"
    if bounds is not None:
        return "bounded" if all(map(math.isfinite, bounds)) else "unbounded"
    # Counts before positive values: whole numbers with a zero would have no logarithm.
    if values.size and values.min() >= 0 and np.all(values == np.floor(values)):
        return "count"
    return "positive" if values.size and values.min() > 0 else "unbounded"


def check_bounds(bounds: Range) -> Range:
    """Return both ends as floats. Raises ValueError unless there are two, the low one below the high one.

    >>> check_bounds([0, 1])
    (0.0, 1.0)
    """
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds must be two numbers, (low, high), not {bounds!r}") from error
    if not low < high:
        raise ValueError(f"the low bound must be below the high bound, not {bounds!r}")
    return low, high


def _codes(clusters: Labels | None, n: int) -> Codes | None:
    return None if clusters is None else cluster_codes(clusters, n)[0]


def apply_kind(kind: Kind, bounds: Range, *arms: Array) -> tuple[Kind, Range, list[Array]]:
    """Return kind, bounds and values clipped to the bounds.

    Averaged repeats make a binary metric bounded; counts and positive values have 0 as their low end.
    """
    check_choice(kind, get_args(Kind), "kind")
    bounds = check_bounds(bounds)
    if kind == "binary":
        # One graded arm makes both arms scores: they must be compared by one method.
        graded = any(bool(np.any((arm != 0) & (arm != 1))) for arm in arms)
        kind, bounds = "bounded" if graded else "binary", (0.0, 1.0)
        if not graded:
            return kind, bounds, list(arms)
    elif kind in ("count", "positive"):
        bounds = check_bounds((max(bounds[0], 0.0), bounds[1]))
    if kind == "unbounded":
        return kind, OPEN, list(arms)
    _check_inside(bounds, arms)
    # Clipping removes what the slack of _check_inside let through.
    return kind, bounds, [np.clip(arm, *bounds) for arm in arms]


def _check_inside(bounds: Range, arms: tuple[Array, ...]) -> None:
    span = bounds[1] - bounds[0]
    # Averaging repeats may move a value out of the bounds by rounding.
    slack = 1e-9 * span if math.isfinite(span) else 0.0
    outside = sum(int(np.sum((arm < bounds[0] - slack) | (arm > bounds[1] + slack))) for arm in arms)
    if outside:
        raise ValueError(
            f"{outside} of {sum(arm.size for arm in arms)} values lie outside the bounds {bounds!r}: correct either"
        )
