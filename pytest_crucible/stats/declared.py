"""What was declared about a metric, brought together with what was seen: checked values, kind, bounds, clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import (
    Array,
    Codes,
    Labels,
    Range,
    check_choice,
    cluster_codes,
    difference,
    finite,
    paired,
)

Kind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded"]
"""yes or no; a few ordered levels; a score between known ends; how many; latency, tokens or cost; any number."""
Scale = Literal["binary", "bounded", "unbounded"]
"""What the method depends on: 0 and 1, both ends known, or not."""

OPEN: Range = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Checked values of one arm, or differences of two: `kind` is the metric's, `bounds` are those of the values."""

    values: Array
    kind: Kind
    bounds: Range
    clusters: Codes | None

    @property
    def scale(self) -> Scale:
        return scale_of(self.kind, self.bounds)

    @property
    def mean(self) -> float | None:
        return mean(self.values) if self.values.size else None

    @property
    def groups(self) -> int | None:
        """Number of clusters, or None when the values are independent."""
        return None if self.clusters is None else np.unique(self.clusters).size

    @property
    def labels(self) -> Codes:
        """Cluster numbers; independent values are their own clusters."""
        return np.arange(self.values.size) if self.clusters is None else self.clusters


def mean(values: Array) -> float:
    """The mean, which never leaves the values by rounding: that of equal values is their value.

    >>> mean(np.array([0.1, 0.1, 0.1])), float(np.mean([0.1, 0.1, 0.1]))
    (0.1, 0.10000000000000002)
    """
    return float(min(max(values.mean(), values.min()), values.max()))


def scale_of(kind: Kind, bounds: Range) -> Scale:
    """An infinite end makes any kind unbounded, and `unbounded` stays so whatever the ends.

    >>> scale_of("ordinal", (1, 5)), scale_of("positive", (0, math.inf))
    ('bounded', 'unbounded')
    """
    if kind == "binary":
        return "binary"
    known = math.isfinite(bounds[0]) and math.isfinite(bounds[1])
    return "bounded" if known and kind != "unbounded" else "unbounded"


def declared(values: npt.ArrayLike, *, kind: Kind, bounds: Range, clusters: Labels | None) -> Observed:
    """One arm. Raises ValueError for NaN, for values out of bounds and for missing cluster labels."""
    kind, bounds, (array,) = _resolved(kind, bounds, finite(values))
    return Observed(values=array, kind=kind, bounds=bounds, clusters=_codes(clusters, array.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """Two arms with one declaration. `differences` are treatment - control, of pairs only."""

    treatment: Observed
    control: Observed
    differences: Observed | None

    @property
    def scale(self) -> Scale:
        return self.treatment.scale

    @property
    def bounds(self) -> Range:
        """The bounds of a difference."""
        low, high = self.treatment.bounds
        return low - high, high - low

    @property
    def clustered(self) -> bool:
        return self.treatment.clusters is not None

    @property
    def groups(self) -> int | None:
        """Clusters in both arms together."""
        codes = [arm.clusters for arm in (self.treatment, self.control) if arm.clusters is not None]
        return int(max(own.max(initial=-1) for own in codes)) + 1 if codes else None


def declared_pairs(
    treatment: npt.ArrayLike, control: npt.ArrayLike, *, kind: Kind, bounds: Range, clusters: Labels | None
) -> Arms:
    """Arms that are paired by index. Raises ValueError like `declared`, and unless they have equal lengths."""
    kind, (low, high), (first, second) = _resolved(
        kind, bounds, *paired(treatment, control, names=("treatment", "control"))
    )
    codes = _codes(clusters, first.size)
    ours, theirs, differences = (
        Observed(values=values, kind=kind, bounds=ends, clusters=codes)
        for values, ends in (
            (first, (low, high)),
            (second, (low, high)),
            (difference(first, second), (low - high, high - low)),
        )
    )
    return Arms(treatment=ours, control=theirs, differences=differences)


def declared_arms(
    treatment: npt.ArrayLike,
    control: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: tuple[Labels, Labels] | None,
) -> Arms:
    """Independent arms with the clusters of each: an equal label in both is the same cluster.

    Raises ValueError like `declared`.
    """
    both = finite(treatment, name="treatment values"), finite(control, name="control values")
    kind, bounds, (first, second) = _resolved(kind, bounds, *both)
    codes = (None, None) if clusters is None else _joint_codes(clusters, (first.size, second.size))
    ours, theirs = (
        Observed(values=values, kind=kind, bounds=bounds, clusters=own)
        for values, own in zip((first, second), codes, strict=True)
    )
    return Arms(treatment=ours, control=theirs, differences=None)


def _joint_codes(clusters: tuple[Labels, Labels], sizes: tuple[int, int]) -> tuple[Codes, Codes]:
    for labels, size in zip(clusters, sizes, strict=True):
        cluster_codes(labels, size)  # each arm its own labels: two wrong lengths could add up to a right one
    codes, _ = cluster_codes([label for labels in clusters for label in labels], sum(sizes))
    return codes[: sizes[0]], codes[sizes[0] :]


def inferred(bounds: Range | None, *arms: Array) -> Kind:
    """The kind that the values of *all* arms show. What is estimated, a mean, is the same for every kind.

    >>> inferred(None, np.array([0.0, 1.0]), np.array([1.0, 1.0])), inferred((0, 5), np.array([0.0, 1.0]))
    ('binary', 'bounded')
    """
    values = np.concatenate(arms)
    bounds = None if bounds is None else ordered(bounds)
    if bounds in (None, (0, 1)) and values.size and np.isin(values, (0.0, 1.0)).all():
        return "binary"
    if bounds is not None:
        return "bounded" if all(map(math.isfinite, bounds)) else "unbounded"
    if values.size and values.min() >= 0 and np.all(values == np.floor(values)):
        return "count"
    return "positive" if values.size and values.min() > 0 else "unbounded"


def ordered(bounds: Range) -> Range:
    """The two ends as numbers. Raises ValueError unless there are two, of which the low one is below the high one.

    >>> ordered([0, 1])
    (0.0, 1.0)
    """
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bounds are two numbers, (low, high), not {bounds!r}") from error
    if not low < high:
        raise ValueError(f"the low bound must be below the high bound, not {bounds!r}")
    return low, high


def _codes(clusters: Labels | None, n: int) -> Codes | None:
    return None if clusters is None else cluster_codes(clusters, n)[0]


def _resolved(kind: Kind, bounds: Range, *arms: Array) -> tuple[Kind, Range, list[Array]]:
    """Repeats that were averaged inside a sample make a binary metric bounded; what is counted or timed is never below 0."""
    check_choice(kind, get_args(Kind), "kind")
    bounds = ordered(bounds)
    if kind == "binary":
        graded = any(bool(np.any((arm != 0) & (arm != 1))) for arm in arms)
        kind, bounds = "bounded" if graded else "binary", (0.0, 1.0)
    elif kind in ("count", "positive"):
        bounds = ordered((max(bounds[0], 0.0), bounds[1]))
    if kind == "unbounded":
        return kind, OPEN, list(arms)
    _check_inside(bounds, arms)
    return kind, bounds, [np.clip(arm, *bounds) for arm in arms]


def _check_inside(bounds: Range, arms: tuple[Array, ...]) -> None:
    span = bounds[1] - bounds[0]
    slack = 1e-9 * span if math.isfinite(span) else 0.0  # an average of repeats may leave the bounds by rounding
    outside = sum(int(np.sum((arm < bounds[0] - slack) | (arm > bounds[1] + slack))) for arm in arms)
    if outside:
        raise ValueError(f"{outside} of {sum(arm.size for arm in arms)} values lie outside the bounds {bounds!r}")
