"""Estimate of one arm: the mean with a two-sided interval to show, and the one-sided bound that decides a target."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Array,
    Labels,
    Range,
    Side,
    check_choice,
    check_share,
    finite,
    is_constant,
)
from pytest_crucible.stats.choose import Validity, find_row, validity_question
from pytest_crucible.stats.inputs import OPEN, Arms, Kind, Observed, declare_arm, infer_kind
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import mean_of_units
from pytest_crucible.stats.results import Bound, EstimateResult, Status

MANY_CLUSTERS = 20
"""Below this many clusters the small-sample correction changes the interval noticeably."""


def arm_assumptions(arm: Observed, repeats: tuple[int, ...]) -> tuple[str, ...]:
    """Return the assumptions of an estimate."""
    shape = [] if arm.scale == "binary" or not arm.values.size else [_nearly_normal("values", arm.values)]
    return tuple(filter(None, (_independence("samples", arm.groups), *shape, *_repeats(repeats))))


def comparison_assumptions(arms: Arms, estimand: str, repeats: tuple[int, ...]) -> tuple[str, ...]:
    """Return the assumptions of a comparison."""
    if not arms.candidate.values.size:
        # Values that were added up batch by batch show no shape.
        return (_independence("pairs" if arms.differences else "samples", arms.groups),)
    premise, what = "the arms were measured on different samples", "samples"
    compared = {"candidate values": arms.candidate.values, "baseline values": arms.baseline.values}
    if arms.differences is not None:
        premise, what = "", "pairs"
        compared = {"logarithms" if estimand == "ratio" else "differences": _compared_values(arms, estimand)}
    # Permutation tests and the bounds of a mean hold for every shape; a t interval does not.
    is_approximate = estimand == "ratio" or arms.scale == "unbounded"
    shape = [_nearly_normal(name, values) for name, values in compared.items() if is_approximate]
    return tuple(filter(None, (premise, _independence(what, arms.groups), *shape, *_repeats(repeats))))


def skewness(values: Array) -> float | None:
    """Return the third standardised moment; None below three values and when nothing varies.

    >>> round(skewness(np.array([0.0, 0.0, 0.0, 1.0])), 6)
    1.154701
    """
    # Two values are always symmetric, and equal values have no deviation to divide by.
    if values.size < 3 or is_constant(values):
        return None
    centred = values - values.mean()
    # Scaled to at most 1, so that no square or cube overflows or underflows to 0.
    centred /= np.abs(centred).max()
    return float((centred**3).mean() / (centred**2).mean() ** 1.5)


def _compared_values(arms: Arms, estimand: str) -> Array:
    if estimand == "ratio" and arms.candidate.values.min() > 0 and arms.baseline.values.min() > 0:
        return np.log(arms.candidate.values) - np.log(arms.baseline.values)
    assert arms.differences is not None
    return arms.differences.values


def _independence(what: str, groups: int | None) -> str:
    if groups is None:
        return f"{what} are independent of each other"
    return f"clusters are independent of each other, {what} within one need not be"


def _nearly_normal(what: str, values: Array) -> str:
    skew = skewness(values)
    if skew is None:
        return ""
    # Adding 0.0 turns -0.0 into 0.0.
    return f"the mean of {values.size} {what} is nearly normal (their skewness is {round(skew, 2) + 0.0:g})"


def _repeats(repeats: tuple[int, ...]) -> list[str]:
    """Return the sentence about the numbers of repeats in the arms; nothing if each sample has one."""
    if max(repeats) == 1:
        return []
    counts = " or ".join(str(count) for count in sorted(set(repeats)))
    return [f"{counts} repeats were averaged inside each sample"]


NO_VARIATION = "the values do not vary, and unobserved values have no declared bounds"
NO_END = "one rare value could move the mean anywhere: declare bounds, as in bounds=(0, 1)"


def estimate(
    values: npt.ArrayLike,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
) -> EstimateResult:
    """Return the mean of one arm (of 0/1 values: the rate) with a two-sided interval.

    `values` has one entry a sample, or one row a sample and one column a repeat: repeats are averaged inside the sample
    first. `clusters` has one label a sample. The method is that of `stats.TABLE`. Raises ValueError without values, for NaN
    (with their count), for values out of `bounds` and for missing labels.

    >>> print(estimate([1, 1, 0, 1]))
    0.750 [0.301, 0.954] n=4 (wilson)
    """
    check_share(alpha, "alpha")
    arm, repeats = _one_arm(values, kind, bounds, clusters)
    if not arm.values.size:
        raise ValueError("0 values: an estimate needs at least one")
    return estimate_arm(arm, alpha, repeats)


def estimate_arm(arm: Observed, alpha: float, repeats: int = 1) -> EstimateResult:
    """Estimate the mean of an arm that is already checked."""
    row = find_row("estimate", "one arm", arm.scale, clustered=arm.clusters is not None)
    interval: Interval | None = None
    note = ""
    status: Status = "degenerate" if arm.is_constant else "ok"
    try:
        interval = row.function(arm, 1 - alpha)
        # Values can vary although all clusters have the same mean: that is degenerate as well.
        if interval is None or interval.method == "point mass":
            note, status = "" if interval else NO_VARIATION, "degenerate"
    except NotEnoughData as refusal:
        note, status = str(refusal), refusal_status(arm.groups)
    return EstimateResult(
        estimate=arm.mean,
        interval=clip_interval(interval, arm.bounds),
        n=arm.size,
        clusters=arm.groups,
        deviation=deviation_for_power(arm),
        kind=arm.kind,
        method=row.method,
        alpha=alpha,
        status=status,
        note=note,
        assumptions=arm_assumptions(arm, (repeats,)),
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
    """Return a one-sided bound for the mean of one arm. It errs in at most a share alpha of experiments.

    Arguments as in `estimate`. `validity="guaranteed"` uses the betting bound, which holds at every n and for every
    distribution between the bounds, and often needs somewhat more samples.

    >>> round(mean_bound([1] * 59, side="lower").value, 4)
    0.9505
    """
    check_share(alpha, "alpha")
    check_choice(side, get_args(Side), "side")
    arm, _ = _one_arm(values, kind, bounds, clusters)
    return bound_arm(arm, alpha, side, validity)


def bound_arm(arm: Observed, alpha: float, side: Side, validity: Validity = "standard") -> Bound:
    """Return a one-sided bound for the mean of an arm that is already checked."""
    row = find_row(validity_question("bound", validity), "one arm", arm.scale, clustered=arm.clusters is not None)
    try:
        value = row.function(arm, alpha, side)
    except NotEnoughData as refusal:
        return Bound(value=None, method=row.method, note=str(refusal))
    if value is None:
        return Bound(value=None, method=row.method, note=NO_END)
    # At a large alpha the pseudo-observations can move a bound beyond the mean.
    if arm.mean is not None:
        value = min(value, arm.mean) if side == "lower" else max(value, arm.mean)
    return Bound(value=clip(value, arm.bounds), method=row.method)


def estimate_chances(values: npt.ArrayLike, level: float, clusters: Labels | None = None) -> EstimateResult:
    """Return the mean of one chance a sample, from 0 to 1: with the interval of its two one-sided bounds, unless all are 0 or 1.

    Where one sample in ten is flaky, and others always pass, Student's t covers the truth of pass@3 in 75 to 86 % of runs.
    """
    return estimate_chances_of(declare_arm(values, kind="binary", bounds=(0.0, 1.0), clusters=clusters), level)


def estimate_chances_of(arm: Observed, level: float) -> EstimateResult:
    """Return what `estimate_chances` does of chances that are checked already."""
    plain = estimate_arm(arm, 1 - level)
    if arm.kind == "binary":
        return plain
    lower, upper = (bound_arm(arm, (1 - level) / 2, side) for side in get_args(Side))
    if lower.value is None or upper.value is None:
        return replace(plain, interval=None, note=lower.note or upper.note)
    interval = Interval(low=lower.value, high=upper.value, level=level, method=lower.method)
    return replace(plain, interval=interval, method=lower.method, note="", status="ok")


def _one_arm(
    values: npt.ArrayLike, kind: Kind | str, bounds: Range | None, clusters: Labels | None
) -> tuple[Observed, int]:
    array, repeats = average_repeats(values)
    resolved_kind = resolve_kind(kind, bounds, np.ravel(values))
    return declare_arm(array, kind=resolved_kind, bounds=OPEN if bounds is None else bounds, clusters=clusters), repeats


def average_repeats(values: npt.ArrayLike) -> tuple[Array, int]:
    """Return one value a sample, and the number of repeats. Raises ValueError for NaN, with their count."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"values must be numbers, one a sample, or as many repeats of each sample: {error}") from error
    if array.ndim not in (1, 2):
        raise ValueError(f"values must be one a sample, or samples x repeats, not the shape {array.shape}")
    # Checked before averaging, so that the count is that of missing repeats, not of samples.
    finite(array.ravel())
    # An empty table has no samples, even if it has columns.
    if array.ndim == 1 or not array.size:
        return array.ravel(), 1
    return array.mean(axis=1), array.shape[1]


def resolve_kind(kind: Kind | str, bounds: Range | None, *arms: Array) -> Kind:
    """Return the declared kind; "auto" infers it from the values. Raises ValueError for "bounded" without bounds."""
    check_choice(kind, ("auto", *get_args(Kind)), "kind")
    if kind == "auto":
        return infer_kind(bounds, *arms)
    if kind == "bounded" and bounds is None:
        raise ValueError("a bounded metric needs its bounds: add bounds=(low, high), for example (0, 1)")
    return cast("Kind", kind)


def refusal_status(groups: int | None) -> Status:
    """Return the status when a method refuses for lack of data."""
    return "insufficient_clusters" if groups is not None else "insufficient_data"


def deviation_for_power(arm: Observed) -> float | None:
    """Return the standard deviation, for clustered values sqrt(n) * se, as power functions use it. None when unknown."""
    if arm.clusters is None:
        return math.sqrt(arm.size) * arm.spread.error if arm.size > 1 else None
    try:
        return math.sqrt(arm.size) * mean_of_units(arm.units).se
    except NotEnoughData:
        return None


def clip_interval(interval: Interval | None, bounds: Range) -> Interval | None:
    """Return the interval, cut to the bounds."""
    if interval is None:
        return None
    low, high = clip(interval.low, bounds), clip(interval.high, bounds)
    return Interval(low=low, high=high, level=interval.level, method=interval.method)


def clip(value: float, bounds: Range) -> float:
    return min(max(value, bounds[0]), bounds[1])
