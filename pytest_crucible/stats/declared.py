"""What was declared about a metric, brought together with what was seen: checked values, kind, bounds, clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import Array, Codes, Labels, Range, cluster_codes, difference, finite, paired

Kind = Literal["binary", "bounded", "unbounded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Checked values of one arm, or differences of two: `kind` is the metric's, `bounds` are those of the values."""

    values: Array
    kind: Kind
    bounds: Range
    clusters: Codes | None

    @property
    def mean(self) -> float | None:
        return float(self.values.mean()) if self.values.size else None

    @property
    def groups(self) -> int | None:
        """Number of clusters, or None when the values are independent."""
        return None if self.clusters is None else int(self.clusters.max(initial=-1)) + 1

    @property
    def labels(self) -> Codes:
        """Cluster numbers; independent values are their own clusters."""
        return np.arange(self.values.size) if self.clusters is None else self.clusters


def declared(values: npt.ArrayLike, *, kind: Kind, bounds: Range, clusters: Labels | None) -> Observed:
    """One arm. Raises ValueError for NaN, for values out of bounds and for missing cluster labels."""
    array = finite(values)
    kind, bounds = _resolved(kind, bounds, array)
    return Observed(values=array, kind=kind, bounds=bounds, clusters=_codes(clusters, array.size))


def declared_differences(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, kind: Kind, bounds: Range, clusters: Labels | None
) -> Observed:
    """Candidate - baseline, with the bounds of a difference. Raises ValueError like `declared`, and unless paired."""
    first, second = paired(candidate, baseline)
    kind, (low, high) = _resolved(kind, bounds, first, second)
    codes = _codes(clusters, first.size)
    return Observed(values=difference(first, second), kind=kind, bounds=(low - high, high - low), clusters=codes)


def _codes(clusters: Labels | None, n: int) -> Codes | None:
    return None if clusters is None else cluster_codes(clusters, n)[0]


def _resolved(kind: Kind, bounds: Range, *arms: Array) -> tuple[Kind, Range]:
    """Repeats that were averaged inside a sample make a binary metric bounded; an infinite end makes it unbounded."""
    if kind not in ("binary", "bounded", "unbounded"):
        raise ValueError(f"kind must be 'binary', 'bounded' or 'unbounded', not {kind!r}")
    if kind == "binary":
        graded = any(bool(np.any((arm != 0) & (arm != 1))) for arm in arms)
        kind, bounds = "bounded" if graded else "binary", (0.0, 1.0)
    if kind == "unbounded" or not (math.isfinite(bounds[0]) and math.isfinite(bounds[1])):
        return "unbounded", (-math.inf, math.inf)
    _check_inside(bounds, arms)
    return kind, (float(bounds[0]), float(bounds[1]))


def _check_inside(bounds: Range, arms: tuple[Array, ...]) -> None:
    slack = 1e-9 * (bounds[1] - bounds[0])  # an average of repeats may leave the bounds by rounding
    outside = sum(int(np.sum((arm < bounds[0] - slack) | (arm > bounds[1] + slack))) for arm in arms)
    if outside:
        raise ValueError(f"{outside} of {sum(arm.size for arm in arms)} values lie outside the bounds {bounds!r}")
