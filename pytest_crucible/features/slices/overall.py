"""The mean over the slices of a field, such as the tasks of a suite: of their means (macro), or of all samples (micro).

Where each slice lies in one of the samples' groups, slices are drawn: the claim is about slices like these, by groups. Elsewhere a
macro mean is about these slices alone, and samples are drawn within them (`stats.means.stratified`). A micro mean has the slices
as groups.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.measures import means
from pytest_crucible.measures.row import (
    Clusters,
    CrossedUnits,
    Difference,
    End,
    Floats,
    Measured,
    Numbers,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)
from pytest_crucible.measures.values import change_bounds, is_tiny_mean, without_rounding
from pytest_crucible.records import BoundedValue, Measure
from pytest_crucible.stats.estimating import clip_interval
from pytest_crucible.stats.factors.sources import mean_over
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.differences import MeanContrast
from pytest_crucible.stats.means.stratified import (
    StratifiedMean,
    stratified_interval,
    stratified_mean,
    stratum_weights,
    weighted_units,
)
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.stats.planning.next_sample import detectable_by_error
from pytest_crucible.stats.resampling.alikeness import flip_signs
from pytest_crucible.stats.slices.slicing import Slicing

GAFFKE = "gaffke of a weighted mean"


def prepare(observations: Observations, end: End) -> Prepared:
    """Return values with their slices as strata; where slices are drawn the means of slices; for micro the samples in groups."""
    slicing, facts = observations.slicing, observations.facts[0]
    if slicing is None:
        return Prepared(values=np.array([]), problem="the samples have no such field")
    column, codes = observations.columns[0], np.asarray(slicing.codes)
    plain = Prepared(
        values={"observed": column.values, "low": column.low, "high": column.high}[end],
        strata=codes.astype(np.float64),
        clusters=observations.clusters,
        kind=facts.kind or "binary",
        bounds=(facts.low, facts.high),
        weights=observations.weights,
        largest_change=facts.reach,
        keys=observations.keys,
        monte_carlo=observations.monte_carlo,
    )
    if observations.measure.counts == "micro":
        groups = join_groups(codes, observations.clusters)
        return replace(means.prepare(replace(observations, clusters=groups), end), note=_drawn_text(observations))
    empty = sorted(set(range(slicing.count)) - set(codes.tolist()))
    if empty:
        names = ", ".join(repr(slicing.names[code]) for code in empty[:5])
        return replace(
            plain, values=np.array([]), problem=f"{names} has no value, so that the mean of all slices is unknown"
        )
    if are_drawn(codes, observations.clusters):
        return _means_of_slices(replace(plain, note=_drawn_text(observations)), codes)
    return replace(plain, note=f"the claim is about {_values_text(observations)} alone")


def _drawn_text(observations: Observations) -> str:
    return f"the claim is about others like {_values_text(observations)}, too"


def _values_text(observations: Observations) -> str:
    """Return `these 12 values of task`."""
    slicing, by = observations.slicing, observations.measure.by
    assert slicing is not None
    assert by is not None
    return f"these {quantity(slicing.count, 'value')} of {by.title}"


def are_drawn(codes: Clusters, clusters: Clusters | None) -> bool:
    """Return whether each slice lies in one of the declared groups, so that slices are drawn, too."""
    if clusters is None:
        return False
    return len(np.unique(np.stack([codes, clusters], axis=1), axis=0)) == len(np.unique(codes))


def make_units(measure: Measure, cells: Floats, slicing: Slicing, clusters: Clusters | None) -> CrossedUnits:
    """Return the units of the mean where prompts, trainings or rounds are random: samples, or slices that are drawn."""
    codes = np.asarray(slicing.codes)
    if measure.counts == "micro":
        return CrossedUnits(cells, join_groups(codes, clusters))
    if clusters is None or not are_drawn(codes, clusters):
        return CrossedUnits(cells, clusters, codes)
    present, first = np.unique(codes, return_index=True)
    slices = np.stack([mean_over(cells[codes == code], (0,)) for code in present])
    return CrossedUnits(slices, clusters[first])


def join_groups(codes: Clusters, clusters: Clusters | None) -> Clusters:
    """Return groups that are unions of slices: slices that share a group are one."""
    if clusters is None:
        return codes
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    groups = np.unique(clusters, return_inverse=True)[1] + int(codes.max(initial=0)) + 1
    size = int(groups.max(initial=0)) + 1
    links = coo_array((np.ones(codes.size), (codes, groups)), shape=(size, size))
    return np.asarray(connected_components(links, directed=False)[1][codes], dtype=np.int64)


def _means_of_slices(prepared: Prepared, codes: Clusters) -> Prepared:
    """Return one value a slice, whose unit is the group that it lies in; `size` is the number of samples."""
    assert prepared.clusters is not None
    weights = stratum_weights(codes, prepared.weights)
    count = int(codes.max()) + 1
    sums = np.bincount(codes, weights=weights * prepared.values)
    # Rounding may put a mean of ones above 1.
    values = np.clip(np.asarray(count * sums, dtype=np.float64), *prepared.bounds)
    first = np.unique(codes, return_index=True)[1]
    return replace(
        prepared, values=values, strata=None, weights=None, clusters=prepared.clusters[first], size=codes.size, keys=None
    )  # fmt: skip


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return the mean with its two-sided interval."""
    if prepared.strata is None or not len(prepared.values):
        return means.estimate_mean(prepared, level) if len(prepared.values) else no_data(prepared)
    groups = counted_clusters(prepared.clusters)
    try:
        mean = _mean_of_strata(prepared, prepared.values)
    except NotEnoughData as refusal:
        return Measured(_mean(prepared), None, groups, str(refusal))
    is_binary = prepared.kind == "binary" and bool(np.isin(prepared.values, (0.0, 1.0)).all())
    interval = stratified_interval(mean, level=level, is_binary=is_binary)
    if not is_binary and all(map(math.isfinite, prepared.bounds)):
        # Near the end of their range, Student's t of 15 scores covers the truth in half of all runs.
        low, high = _bounds(prepared, prepared.values, prepared.bounds, (1 - level) / 2)
        interval = Interval(low=low, high=high, level=level, method=GAFFKE)
    method = "none" if interval is None else interval.method
    return Measured(mean.estimate, clip_interval(interval, prepared.bounds), groups, method)


def bound(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the mean with its one-sided bounds; none for values without ends."""
    if prepared.strata is None or not len(prepared.values):
        return means.bound_mean(prepared, alpha) if len(prepared.values) else no_bounds(prepared)
    if not np.isfinite(prepared.values).all():
        return BoundedValue(value=float(np.sum(prepared.values))), "unbounded"
    value = _mean(prepared)
    if not all(map(math.isfinite, prepared.bounds)):
        return BoundedValue(value=value), "none"
    try:
        lower, upper = _bounds(prepared, prepared.values, prepared.bounds, alpha)
    except NotEnoughData as refusal:
        return BoundedValue(value=value), str(refusal)
    lower, upper = (min(max(end, prepared.bounds[0]), prepared.bounds[1]) for end in (lower, upper))
    return BoundedValue(value=value, lower=lower, upper=upper), GAFFKE


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second on the same samples; None without pairs, and where a lost value could be anything."""
    if not len(first.values) or not all(np.isfinite(arm.values).all() for arm in (first, second)):
        return None
    if first.strata is None:
        return _of_groups(first, means.compare_means(first, second, alpha))
    try:
        return _compare_strata(first, second, alpha)
    except NotEnoughData as refusal:
        return Difference(
            value=_mean(first) - _mean(second),
            method="none",
            n=len(first.values),
            clusters=counted_clusters(first.clusters),
            note=str(refusal),
        )


def _compare_strata(first: Prepared, second: Prepared, alpha: float) -> Difference:
    differences = first.values - without_rounding(first.values, second.values, first.bounds)
    limits = change_bounds(first)
    weights, n = stratum_weights(_codes(first), first.weights), len(differences)
    alike = flip_signs(
        n * weights * differences,
        clusters=first.clusters,
        keys=first.keys,
        alternative="two-sided",
        monte_carlo=first.monte_carlo,
    )
    value = float(weights @ differences)
    tiny = is_tiny_mean(value, first.bounds)
    plain = Difference(
        value=0.0 if tiny else value,
        p_value=1.0 if tiny else alike.p_value,
        alikeness=alike,
        method=alike.method,
        n=n,
        clusters=counted_clusters(first.clusters),
        span=limits[1],
    )
    try:
        return _with_bounds(plain, first, differences, limits, alpha)
    except NotEnoughData as refusal:
        return replace(plain, note=str(refusal))


def _with_bounds(
    plain: Difference, prepared: Prepared, differences: Floats, limits: Numbers, alpha: float
) -> Difference:
    mean = _mean_of_strata(prepared, differences)
    deviation = math.sqrt(plain.n) * mean.se
    if not all(map(math.isfinite, limits)):
        interval = stratified_interval(mean, level=1 - alpha, is_binary=False)
        return replace(plain, interval=interval, deviation=deviation, dof=mean.dof if mean.se else None)
    low, high = _bounds(prepared, differences, limits, alpha / 2)
    lower, upper = _bounds(prepared, differences, limits, alpha)
    return replace(
        plain,
        interval=Interval(low=low, high=high, level=1 - alpha, method=GAFFKE),
        lower=lower,
        upper=upper,
        bounds_method=GAFFKE,
        proof_p=_proof_p(prepared, differences, limits) if plain.value else 1.0,
        deviation=deviation,
        dof=mean.dof if mean.se else None,
    )


def _of_groups(prepared: Prepared, difference: Difference | None) -> Difference | None:
    """Return a difference of slices that are drawn as one of so many samples: no number of samples is planned by it."""
    if difference is None or prepared.size is None or prepared.strata is not None:
        return difference
    deviation, count = difference.deviation, difference.n
    detectable = (
        None if not deviation else partial(_detectable, deviation / math.sqrt(count), difference.dof or count - 1)
    )
    return replace(
        difference, n=prepared.size, deviation=None, discordance=None, samples_past_limit=None, effects=(),
        detectable=detectable,
    )  # fmt: skip


def _detectable(se: float, dof: float, alpha: float) -> float | None:
    return detectable_by_error(se, dof, alpha=alpha)


def _codes(prepared: Prepared) -> Clusters:
    assert prepared.strata is not None
    return prepared.strata.astype(np.int64)


def _mean(prepared: Prepared) -> float:
    return float(stratum_weights(_codes(prepared), prepared.weights) @ prepared.values)


def _mean_of_strata(prepared: Prepared, values: Floats) -> StratifiedMean:
    return stratified_mean(values, _codes(prepared), sizes=prepared.weights, clusters=prepared.clusters)


def _contrast(prepared: Prepared, values: Floats, ends: Numbers, sign: float) -> MeanContrast:
    weights = stratum_weights(_codes(prepared), prepared.weights)
    return MeanContrast((weighted_units(values, weights, prepared.clusters),), (sign,), ends, shares_units=False)


def _bounds(prepared: Prepared, values: Floats, ends: Numbers, alpha: float) -> tuple[float, float]:
    """Return the one-sided bounds of values between finite ends. Raises NotEnoughData below two values, or five groups."""
    if len(values) < 2:
        raise NotEnoughData(f"{quantity(len(values), 'sample')}: a bound needs at least 2")
    inside = np.clip(values, *ends)
    lower, upper = (sign * _contrast(prepared, inside, ends, sign).lower_bound(alpha) for sign in (1.0, -1.0))
    return lower, upper


def _proof_p(prepared: Prepared, differences: Floats, limits: Numbers) -> float:
    """Return the two-sided p-value of the bounds, for a difference of 0."""
    inside = np.clip(differences, *limits)
    return min(1.0, 2 * min(_contrast(prepared, inside, limits, sign).p_value(0.0) for sign in (1.0, -1.0)))
