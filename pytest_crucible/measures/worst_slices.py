"""Worst: the worst mean of the slices of a field. Each slice has the one-sided bounds of a target on all samples."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pytest_crucible import stats
from pytest_crucible.measures.means import samples_to_prove_mean
from pytest_crucible.measures.row import Floats, Measured, Prepared, no_bounds
from pytest_crucible.measures.slices import count_sliced, measured_extreme
from pytest_crucible.records import BoundedValue
from pytest_crucible.records.slices import short_name
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.means.differences import MeanContrast
from pytest_crucible.stats.slices.changes import SlicedColumns


def estimate_worst(prepared: Prepared, level: float) -> Measured:
    """Return the worst mean with the interval that its two one-sided bounds form."""
    return measured_extreme(prepared, bound_worst(prepared, 1 - level), level)


def bound_worst(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the worst mean: its far bound holds for every slice alone, its near bound for all slices together (Bonferroni)."""
    columns = prepared.columns
    if columns is None or prepared.problem:
        return no_bounds(prepared)
    sign = 1.0 if columns.takes_smallest else -1.0
    far: Side = "lower" if columns.takes_smallest else "upper"
    near: Side = "upper" if columns.takes_smallest else "lower"
    means = [_mean_of(columns, number) for number in range(columns.slicing.count)]
    numbers = [number for number, mean in enumerate(means) if mean is not None]
    worst = min(numbers, key=lambda number: sign * (means[number] or 0.0))
    every = {number: _one_bound(columns, number, alpha, far) for number in numbers}
    some = {number: _one_bound(columns, number, alpha / len(numbers), near) for number in numbers}
    proven = [(sign * value, number) for number, value in some.items() if value is not None]
    open_ones = [(sign * value, number) for number, value in every.items() if value is not None]
    is_whole = len(open_ones) == columns.slicing.count
    sides = {
        near: (sign * min(proven)[0], min(proven)[1]) if proven else (None, None),
        far: (sign * min(open_ones)[0], min(open_ones)[1]) if is_whole else (None, None),
    }

    def text(number: int | None) -> str:
        return "" if number is None else f"{short_name(columns.names[number])} {means[number]:.3g}"

    return BoundedValue(
        value=means[worst],
        lower=sides["lower"][0],
        upper=sides["upper"][0],
        lower_of=text(sides["lower"][1]),
        upper_of=text(sides["upper"][1]),
    ), "one-sided bounds of each slice"


def _slice_values(columns: SlicedColumns, number: int) -> tuple[Floats, SlicedColumns]:
    inside = (columns.slicing.codes == number) & ~np.isnan(columns.plus[0])
    return columns.plus[0][inside], replace(
        columns, clusters=None if columns.clusters is None else columns.clusters[inside]
    )


def _mean_of(columns: SlicedColumns, number: int) -> float | None:
    if columns.slicing.strata is not None:
        mean = float(columns.means(columns.plus)[0].means[number])
        return None if math.isnan(mean) else mean
    values, _ = _slice_values(columns, number)
    return float(values.mean()) if len(values) and np.isfinite(values).all() else None


def _one_bound(columns: SlicedColumns, number: int, alpha: float, side: Side) -> float | None:
    """Return the bound of one slice's mean by the method of its kind, as for a target on all samples."""
    if columns.slicing.strata is not None:
        return _standardised_bound(columns, number, alpha, side)
    values, own = _slice_values(columns, number)
    kind = "binary" if columns.binary[0] and bool(np.isin(values, (0.0, 1.0)).all()) else None
    bounds = columns.bounds[0]
    if kind is None:
        kind = "bounded" if all(map(math.isfinite, bounds)) else "unbounded"
    return stats.mean_bound(values, kind=kind, bounds=bounds, clusters=own.clusters, alpha=alpha, side=side).value


def _standardised_bound(columns: SlicedColumns, number: int, alpha: float, side: Side) -> float | None:
    means, bounds = columns.means(columns.plus)[0], columns.bounds[0]
    if math.isnan(means.means[number]) or not all(map(math.isfinite, bounds)):
        return None
    sign = 1.0 if side == "lower" else -1.0
    return sign * MeanContrast((means.units[number],), (sign,), bounds, shares_units=True).lower_bound(alpha)


def samples_to_prove_worst(prepared: Prepared, limit: float, alpha: float) -> int | None:
    """Return about how many samples prove the worst mean against a limit with 80 % power, were these means the truth.

    All slices have to be proven good, or one of them, at its share of alpha, bad.
    """
    columns = prepared.columns
    if columns is None or prepared.problem or columns.slicing.strata is not None:
        return None
    bounds, total = columns.bounds[0], count_sliced(prepared)
    good: list[float | None] = []
    bad: list[float | None] = []
    for number in range(columns.slicing.count):
        values, _ = _slice_values(columns, number)
        if not len(values):
            return None
        is_good = (float(values.mean()) > limit) == columns.takes_smallest
        share = alpha if is_good else alpha / columns.slicing.count
        own = Prepared(values=values, kind="binary" if columns.binary[0] else "bounded", bounds=bounds)
        needed = samples_to_prove_mean(own, limit, share)
        (good if is_good else bad).append(None if needed is None else needed * total / len(values))
    if not bad:
        return None if None in good else math.ceil(max(each for each in good if each is not None))
    known = [each for each in bad if each is not None]
    return math.ceil(min(known)) if known else None
