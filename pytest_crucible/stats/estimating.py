"""One arm: its mean with the interval to show, and the one-sided bound to decide by."""

from __future__ import annotations

import math
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Bound, Estimate, Status
from pytest_crucible.stats.assumptions import of_one_arm
from pytest_crucible.stats.choose import row
from pytest_crucible.stats.declared import OPEN, Kind, Observed, declared, inferred
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.observations import (
    Array,
    Labels,
    Range,
    Side,
    check_choice,
    check_share,
    finite,
    is_constant,
)
from pytest_crucible.stats.validity import Validity, margin_question

NO_VARIATION = "the values do not vary, and no bounds limit what was not seen"


def estimate(
    values: npt.ArrayLike,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
) -> Estimate:
    """Mean of one arm (of 0/1 values: its rate) with the two-sided interval to show.

    `values` has one entry a sample, or one row a sample and one column a repeat: repeats are averaged inside the sample
    first. `clusters` has one label a sample. The method is that of `stats.TABLE`. Raises ValueError without values, for NaN
    (with their count), for values out of `bounds` and for missing labels.

    >>> print(estimate([1, 1, 0, 1]))
    0.750 [0.301, 0.954] n=4 (wilson)
    """
    check_share(alpha, "alpha")
    seen, repeats = _one_arm(values, kind, bounds, clusters)
    if not seen.values.size:
        raise ValueError("0 values: an estimate needs at least one")
    return estimated(seen, alpha, repeats)


def estimated(seen: Observed, alpha: float, repeats: int = 1) -> Estimate:
    """The answer for one arm that is already checked."""
    chosen = row("estimate", "one arm", seen.scale, clustered=seen.clusters is not None)
    interval: Interval | None = None
    note = ""
    status: Status = "degenerate" if is_constant(seen.values) else "ok"
    try:
        interval = chosen.function(seen, 1 - alpha)
        if interval is None or interval.method == "point mass":  # or no cluster differs from another
            note, status = "" if interval else NO_VARIATION, "degenerate"
    except NotEnoughData as refusal:
        note, status = str(refusal), refused(seen.groups)
    return Estimate(
        estimate=seen.mean,
        interval=inside(interval, seen.bounds),
        n=seen.values.size,
        clusters=seen.groups,
        deviation=spread(seen),
        kind=seen.kind,
        method=chosen.method,
        alpha=alpha,
        status=status,
        note=note,
        assumptions=of_one_arm(seen, (repeats,)),
    )


def mean_bound(
    values: npt.ArrayLike,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
    side: Side = "lower",
    validity: Validity = "standard",
) -> Bound:
    """One-sided bound for the mean of one arm, which errs in at most a share alpha of experiments. Arguments as in `estimate`.

    `validity="guaranteed"` takes the betting bound, which holds at every n for every law between the bounds, at a cost in power.

    >>> round(mean_bound([1] * 59, side="lower").value, 4)
    0.9505
    """
    check_share(alpha, "alpha")
    check_choice(side, get_args(Side), "side")
    seen, _ = _one_arm(values, kind, bounds, clusters)
    chosen = row(margin_question("bound", validity), "one arm", seen.scale, clustered=seen.clusters is not None)
    try:
        value = chosen.function(seen, alpha, side)
    except NotEnoughData as refusal:
        return Bound(value=None, method=chosen.method, note=str(refusal))
    if value is None:
        return Bound(value=None, method=chosen.method, note=NO_VARIATION)
    if seen.mean is not None:  # at a large alpha pseudo-observations may draw a bound past it
        value = min(value, seen.mean) if side == "lower" else max(value, seen.mean)
    return Bound(value=cut(value, seen.bounds), method=chosen.method)


def _one_arm(
    values: npt.ArrayLike, kind: Kind | str, bounds: Range | None, clusters: Labels | None
) -> tuple[Observed, int]:
    array, repeats = averaged(values)
    known = known_kind(kind, bounds, np.ravel(values))
    return declared(array, kind=known, bounds=OPEN if bounds is None else bounds, clusters=clusters), repeats


def averaged(values: npt.ArrayLike) -> tuple[Array, int]:
    """One value a sample, and how many repeats each was averaged over. Raises ValueError for NaN, with their count."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"values are numbers, one a sample, or as many repeats of each sample: {error}") from error
    if array.ndim not in (1, 2):
        raise ValueError(f"values are one a sample, or samples x repeats, not the shape {array.shape}")
    finite(array.ravel())
    if array.ndim == 1 or not array.size:
        return array.ravel(), 1
    return array.mean(axis=1), array.shape[1]


def known_kind(kind: Kind | str, bounds: Range | None, *arms: Array) -> Kind:
    """The declared kind, or for "auto" the one that the values show. Raises ValueError for a score without its ends."""
    check_choice(kind, ("auto", *get_args(Kind)), "kind")
    if kind == "auto":
        return inferred(bounds, *arms)
    if kind == "bounded" and bounds is None:
        raise ValueError("a bounded metric needs its bounds: add bounds=(low, high), for example (0, 1)")
    return cast("Kind", kind)


def refused(groups: int | None) -> Status:
    """The status of what a method refused."""
    return "insufficient_clusters" if groups is not None else "insufficient_data"


def spread(seen: Observed) -> float | None:
    """Standard deviation, for clustered values sqrt(n) * se: what the power functions want. None when unknown."""
    if seen.clusters is None:
        return math.sqrt(seen.values.size) * standard_error(seen.values) if seen.values.size > 1 else None
    try:
        return math.sqrt(seen.values.size) * clustered_mean(seen.values, seen.clusters).se
    except NotEnoughData:
        return None


def inside(interval: Interval | None, bounds: Range) -> Interval | None:
    """The interval cut to what is possible."""
    if interval is None:
        return None
    low, high = cut(interval.low, bounds), cut(interval.high, bounds)
    return Interval(low=low, high=high, level=interval.level, method=interval.method)


def cut(value: float, bounds: Range) -> float:
    return min(max(value, bounds[0]), bounds[1])
