"""Gap, ratio and worst: the largest difference, the smallest ratio and the worst mean of the slices of a field.

Bounds and changes: `stats.slices`. Each metric counts on the samples that it applies to. A slice without such samples has no rate,
which is neither 0 nor 1, and while a slice has none nothing is proven fair. Of the worst mean, each slice has the one-sided bounds
of a target on all samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np

from pytest_crucible import stats
from pytest_crucible.measures.declarations import metric_direction
from pytest_crucible.measures.fields import advise_cuts, samples_without_slice
from pytest_crucible.measures.means import samples_to_prove_mean
from pytest_crucible.measures.row import (
    Difference,
    End,
    Floats,
    Measured,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)
from pytest_crucible.records import BoundedValue, Measure
from pytest_crucible.records.datasets import By, short_name
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.differences import MeanContrast
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.slices.changes import Change, SlicedColumns, change_of_extreme
from pytest_crucible.stats.slices.extremes import ExtremeBounds, Pair, bound_extreme
from pytest_crucible.stats.slices.pairs import Extreme
from pytest_crucible.stats.slices.slicing import NO_SLICE, SliceMeans

CHANGE = "change of an extreme, cr2"
CHANGE_BOUNDS = "change of an extreme, gaffke"
RATIO_OF_RATIOS = "ratio of ratios"


def prepare(observations: Observations, end: End) -> Prepared:
    """Return values with their slices. Lost samples are where they make the statistic as low, or as high, as it can be."""
    slicing, facts = observations.slicing, observations.facts
    if slicing is None:
        return Prepared(values=np.array([]), problem="the samples have no such field")
    plus, minus = _ends(observations, end)
    columns = SlicedColumns(
        metrics=tuple(each.name for each in facts),
        plus=plus,
        minus=minus,
        slicing=slicing,
        clusters=observations.clusters,
        binary=tuple(each.kind == "binary" for each in facts),
        bounds=tuple((each.low, each.high) for each in facts),
        takes_smallest=metric_direction(observations.measure, facts[0]),
    )
    return Prepared(
        values=plus[0],
        clusters=observations.clusters,
        kind=facts[0].kind or "binary",
        bounds=(facts[0].low, facts[0].high),
        columns=columns,
        problem=_problem(columns, observations.measure),
        note=_note(columns, observations.measure.by),
    )


def _ends(observations: Observations, end: End) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    if end == "observed":
        values = tuple(column.values for column in observations.columns)
        return values, values
    low, high = (tuple(getattr(column, side) for column in observations.columns) for side in ("low", "high"))
    return (low, high) if end == "low" else (high, low)


def _problem(columns: SlicedColumns, measure: Measure) -> str:
    if columns.slicing.count < 2:
        return "all samples that have the field are in one slice"
    of_metrics = columns.means(columns.plus)
    # One metric that can be compared is enough to prove a gap.
    if max(int(means.has_rate.sum()) for means in of_metrics) < 2:
        return f"fewer than two slices have a rate{_lack_of_strata(columns, measure.by)}"
    if measure.statistic == "ratio" and all(np.nanmax(means.means) == 0 for means in of_metrics):
        return "all rates are 0, so that the ratio is undefined"
    return ""


def _lack_of_strata(columns: SlicedColumns, by: By | None) -> str:
    """Explain slices that have a rate, but none that is standardised; empty if that is not the reason."""
    if by is None or by.within is None or columns.slicing.strata is None:
        return ""
    plain = replace(columns, slicing=replace(columns.slicing, strata=None))
    rated = np.any([means.has_rate for means in plain.means(plain.plus)], axis=0)
    if rated.sum() < 2:
        return ""
    lacking = rated & ~np.any([means.has_rate for means in columns.means(columns.plus)], axis=0)
    names = list(itertools.compress(columns.names, lacking))
    count = len(np.unique(columns.slicing.strata[columns.slicing.strata != NO_SLICE]))
    return (
        f": {_list_names(names)} {'lacks' if len(names) == 1 else 'lack'} some of the {quantity(count, 'value')} of "
        f"{by.within}; choose a field with fewer, or leave out 'within'"
    )


def _note(columns: SlicedColumns, by: By | None) -> str:
    """Name the slices without a rate, count the samples without a slice, and advise to cut a quantity."""
    notes = []
    for metric, means in zip(columns.metrics, columns.means(columns.plus), strict=True):
        missing = [name for name, rated in zip(columns.names, means.has_rate, strict=True) if not rated]
        if missing:
            where = "" if by is None or by.within is None else f" in some {by.within}"
            notes.append(f"{_have(missing)} no {metric}{where}, so fairness cannot be proven")
    advice = "" if by is None else advise_cuts(by, columns.slicing)
    return "; ".join([*notes, *filter(None, (samples_without_slice(columns.slicing), advice))])


def estimate(prepared: Prepared, level: float, *, kind: Extreme) -> Measured:
    """Return the extreme with the interval that its two one-sided bounds form."""
    return measured_extreme(prepared, bound_measure(prepared, 1 - level, kind=kind), level)


def measured_extreme(prepared: Prepared, bounded: tuple[BoundedValue, str], level: float) -> Measured:
    """Return a value with the interval that its bounds form; an end without a bound is infinite."""
    reading, method = bounded
    if reading.value is None:
        return no_data(prepared)
    interval = None
    if reading.lower is not None or reading.upper is not None:
        low = -math.inf if reading.lower is None else reading.lower
        high = math.inf if reading.upper is None else reading.upper
        interval = Interval(low=low, high=high, level=level, method=method)
    return Measured(reading.value, interval, counted_clusters(prepared.clusters), method)


def bound_measure(prepared: Prepared, alpha: float, *, kind: Extreme) -> tuple[BoundedValue, str]:
    """Return the extreme with its one-sided bounds, each with the pair of slices that it is of."""
    columns = prepared.columns
    if columns is None or prepared.problem:
        return no_bounds(prepared)
    plus, minus = columns.both_means()
    bounds = bound_extreme(kind, plus, minus, alpha=alpha)
    if bounds.value is None:
        return BoundedValue(value=None), "all rates are 0"
    text = partial(_pair_text, columns, plus, minus)
    # Over both orders of a pair the largest difference is at least 0 and the smallest ratio at most 1, whatever the bound of one
    # pair says; and no two means are further apart than the metric's bounds.
    largest = max(high - low for low, high in columns.bounds) if kind == "gap" else 1.0
    value, lower, upper = (
        None if number is None else min(max(number, 0.0), largest)
        for number in (bounds.value, bounds.lower, bounds.upper)
    )
    return BoundedValue(
        value=value, lower=lower, upper=upper, lower_of=text(bounds.lower_pair), upper_of=text(bounds.upper_pair)
    ), bounds.method


def _pair_text(
    columns: SlicedColumns, plus: tuple[SliceMeans, ...], minus: tuple[SliceMeans, ...], pair: Pair | None
) -> str:
    if pair is None:
        return ""
    first, second = (short_name(columns.names[at]) for at in (pair.first, pair.second))
    values = plus[pair.column].means[pair.first], minus[pair.column].means[pair.second]
    metric = f"{columns.metrics[pair.column]}: " if len(columns.metrics) > 1 else ""
    return f"{metric}{first} {values[0]:.3g}, {second} {values[1]:.3g}"


def compare(
    first: Prepared, second: Prepared, alpha: float, *, kind: Literal["gap", "ratio", "worst"]
) -> Difference | None:
    """Return first minus second extreme on the same samples: gaps and worst means as they are, ratios by their logarithms."""
    if first.columns is None or second.columns is None or not len(first.values):
        return None
    arms = first.columns.arm(), second.columns.arm()
    n, clusters = count_sliced(first), counted_clusters(first.clusters)
    change = change_of_extreme(kind, *arms, alpha=alpha, takes_smallest=first.columns.takes_smallest)
    # The extreme of `change_of_extreme` is the largest contrast, which a worse slice or a smaller ratio makes larger.
    is_turned = kind == "ratio" or (kind == "worst" and first.columns.takes_smallest)
    turned = _turn(change) if is_turned else change
    return _difference(
        turned, kind, n, clusters, alpha, "" if change.value is not None else _no_change(first, second, kind)
    )


def _no_change(first: Prepared, second: Prepared, kind: str) -> str:
    problem = first.problem or second.problem
    if problem:
        return problem
    unrated, single, zero = dict[str, None](), dict[str, None](), dict[str, None]()
    for columns in filter(None, (first.columns, second.columns)):
        for means in columns.arm().plus:
            unrated |= dict.fromkeys(itertools.compress(columns.names, ~means.has_rate))
            if means.joint is not None:
                unknown = means.has_rate & np.isnan(means.joint.errors)
                single |= dict.fromkeys(itertools.compress(columns.names, unknown))
            zero |= dict.fromkeys(itertools.compress(columns.names, means.means == 0))
    if unrated:
        return f"{_have(unrated)} no rate in one of the arms"
    if single:
        unit = "sample" if first.clusters is None else "group"
        return f"{_have(single)} one {unit}, and a change needs two in each slice"
    if zero and kind == "ratio":
        rate = "a rate of 0" if len(zero) == 1 else "rates of 0"
        return f"{_have(zero)} {rate} in one of the arms, so that the change of the ratio is undefined"
    return "a slice has no rate in one of the arms"


def _list_names(names: Iterable[str]) -> str:
    first = [repr(short_name(name)) for name in names]
    more = f" and {len(first) - 5} more" if len(first) > 5 else ""
    return f"{', '.join(first[:5])}{more}"


def _have(names: Collection[str]) -> str:
    return f"{_list_names(names)} {'has' if len(names) == 1 else 'have'}"


def count_sliced(prepared: Prepared) -> int:
    """Return the number of samples that are in a slice."""
    assert prepared.columns is not None
    return int((prepared.columns.slicing.codes != NO_SLICE).sum())


def _turn(change: Change) -> Change:
    def minus(value: float | None) -> float | None:
        return None if value is None else -value

    return replace(
        change,
        value=minus(change.value),
        low=minus(change.high),
        high=minus(change.low),
        lower=minus(change.upper),
        upper=minus(change.lower),
    )


def _difference(change: Change, kind: str, n: int, clusters: int | None, alpha: float, note: str) -> Difference:
    interval = None
    if change.low is not None and change.high is not None:
        interval = Interval(low=change.low, high=change.high, level=1 - alpha, method=CHANGE_BOUNDS)
    return Difference(
        value=change.value,
        interval=interval,
        p_value=change.p_value,
        proof_p=change.proof_p,
        p_exact=None,
        lower=change.lower,
        upper=change.upper,
        method=CHANGE,
        bounds_method="none" if change.lower is None else CHANGE_BOUNDS,
        n=n,
        clusters=clusters,
        deviation=None if change.error is None else change.error * math.sqrt(n),
        ratio=RATIO_OF_RATIOS if kind == "ratio" else "",
        note=note,
    )


def samples_to_prove(prepared: Prepared, limit: float, alpha: float, *, kind: Extreme) -> int | None:
    """Return about how many samples prove the extreme against a limit with 80 % power, were these rates the truth."""
    if prepared.columns is None or prepared.problem:
        return None
    bounds: ExtremeBounds = bound_extreme(kind, *prepared.columns.both_means(), alpha=alpha, limit=limit)
    return None if bounds.needed is None else math.ceil(bounds.needed * count_sliced(prepared))


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
    sizes = [each for each in bad if each is not None]
    return math.ceil(min(sizes)) if sizes else None
