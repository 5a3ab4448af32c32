"""One arm: its mean with the interval to show, and the one-sided bound to decide by."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Bound, Estimate, Status
from pytest_crucible.stats.assumptions import of_one_arm
from pytest_crucible.stats.choose import row
from pytest_crucible.stats.declared import OPEN, Kind, Observed, declared, inferred
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS, clustered_mean
from pytest_crucible.stats.observations import Array, Labels, Range, Side, check_share, finite
from pytest_crucible.stats.validity import Validity, margin_question

NO_VARIATION = "the values do not vary and the metric has no bounds: nothing limits what was not seen"


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
    array, repeats = averaged(values)
    if not array.size:
        raise ValueError("0 values: an estimate needs at least one")
    seen = declared(array, kind=known_kind(kind, bounds, array), bounds=bounds or OPEN, clusters=clusters)
    check_share(alpha, "alpha")
    return estimated(seen, alpha, repeats)


def estimated(seen: Observed, alpha: float, repeats: int = 1) -> Estimate:
    chosen = row("estimate", "one arm", seen.scale, clustered=seen.clusters is not None)
    interval: Interval | None = None
    note, status = "", status_of(seen)
    try:
        interval = chosen.function(seen, 1 - alpha)
        note = "" if interval is not None else NO_VARIATION
    except NotEnoughData as refusal:
        note = str(refusal)
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
        assumptions=of_one_arm(seen, repeats),
    )


def mean_bound(
    values: npt.ArrayLike,
    *,
    kind: Kind,
    bounds: Range,
    clusters: Labels | None = None,
    alpha: float = 0.05,
    side: Side = "lower",
    validity: Validity = "standard",
) -> Bound:
    """One-sided bound for the mean of one arm, which errs in at most a share alpha of experiments.

    `validity="guaranteed"` takes the betting bound, which holds at every n for every law between the bounds, at a cost in power.

    >>> round(mean_bound([1] * 59, kind="binary", bounds=(0, 1), side="lower").value, 4)
    0.9505
    """
    seen = declared(values, kind=kind, bounds=bounds, clusters=clusters)
    chosen = row(margin_question("bound", validity), "one arm", seen.scale, clustered=seen.clusters is not None)
    try:
        value = chosen.function(seen, alpha, side)
    except NotEnoughData as refusal:
        return Bound(value=None, method=chosen.method, note=str(refusal))
    if value is None:
        return Bound(value=None, method=chosen.method, note=NO_VARIATION)
    return Bound(value=cut(value, seen.bounds), method=chosen.method)


def averaged(values: npt.ArrayLike) -> tuple[Array, int]:
    """One value a sample, and how many repeats each was averaged over. Raises ValueError for NaN, with their count."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not array.size:
        return finite(array), 1
    finite(array.ravel())
    return array.mean(axis=1), array.shape[1]


def known_kind(kind: Kind | str, bounds: Range | None, *arms: Array) -> Kind:
    """The declared kind, or for "auto" the one that the values show. Raises ValueError for a score without its ends."""
    if kind == "auto":
        return inferred(bounds, *arms)
    if kind == "bounded" and bounds is None:
        raise ValueError("a bounded metric needs its bounds: add bounds=(low, high), for example (0, 1)")
    return kind  # type: ignore[return-value]  # `declared` refuses what is not a kind


def status_of(seen: Observed, least: int = 2) -> Status:
    if seen.groups is not None and seen.groups < FEWEST_CLUSTERS:
        return "insufficient_clusters"
    if seen.values.size < least and seen.scale != "binary":
        return "insufficient_data"
    return "degenerate" if seen.values.size and np.ptp(seen.values) == 0 else "ok"


def spread(seen: Observed) -> float | None:
    """Standard deviation, for clustered values sqrt(n) * se: what the power functions want. None when unknown."""
    if seen.clusters is None:
        return float(seen.values.std(ddof=1)) if seen.values.size > 1 else None
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
