"""Estimates, bounds and differences whose intervals count the noise of random factors, by `stats.factors`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, choose_slices, row_of
from pytest_crucible.measures.row import (
    Column,
    CrossedUnits,
    Difference,
    End,
    Measured,
    Numbers,
    Observations,
    Prepared,
)
from pytest_crucible.measures.table import MEAN, comparison_row
from pytest_crucible.measures.values import change_bounds
from pytest_crucible.records import FACTORS, FEWEST_LEVELS, BoundedValue, Contrast, EffectSize, Measure, Target
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity

NO_METHOD = "none that counts {factors}"
SHARED = ("prompts", "rounds")
"""Factors with the same levels in both arms of a session, so that replies are paired."""
_REMEDIES = {
    "prompts": "add prompts, or declare fixed='prompts'",
    "trainings": "raise the adapter's seeds, or declare fixed='trainings'",
    "rounds": "run with --crucible-rounds={levels} or more, or declare fixed='rounds'",
}


def estimate(
    measure: Measure,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    plain: Measured,
    level: float,
) -> Measured:
    """Return the estimate with an interval that counts every random factor. `plain` counts the samples alone."""
    if not row_of(measure).counts_factors or plain.value is None:
        return replace(plain, interval=None, method=_no_method(attributes))
    units, prepared = _units(measure, metrics, attributes, chosen)
    try:
        mean = _mean(units, attributes)
    except NotEnoughData:
        return replace(plain, interval=None)
    if len(mean.sources) == 1:
        return plain
    interval = _clip_interval(stats.crossed_interval(mean, level=level, bounds=prepared.bounds), prepared.bounds)
    scale = prepared.size or 1 if row_of(measure).is_total else 1
    scaled = interval and replace(interval, low=interval.low * scale, high=interval.high * scale)
    return replace(plain, interval=scaled, method=interval.method if interval else plain.method)


def bound_measure(
    measure: Measure,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    end: End,
    plain: BoundedValue,
    method: str,
    alpha: float,
) -> tuple[BoundedValue, str, str]:
    """Return the one-sided bounds that count every random factor, their method, and the reason if there are none.

    `plain` and `method` count the samples alone; they are returned where no factor of this arm has several levels.
    """
    unproven, row = replace(plain, lower=None, upper=None), row_of(measure)
    if not row.counts_factors or plain.value is None or not chosen.any():
        return unproven, _no_method(attributes), "" if row.counts_factors else _no_method_note(row.title, attributes)
    units, prepared = _units(measure, metrics, attributes, chosen, end)
    if np.isinf(units.cells).any():
        return unproven, "unbounded", ""
    try:
        mean = _mean(units, attributes)
    except NotEnoughData as refusal:
        return unproven, "none", str(refusal)
    if len(mean.sources) == 1:
        return plain, method, ""
    bounds = stats.crossed_bounds(mean, alpha=alpha, bounds=prepared.bounds)
    scale = prepared.size or 1 if row.is_total else 1
    ends = prepared.bounds[0] * scale, prepared.bounds[1] * scale
    few = few_levels(mean.sources, attributes) or _too_few_to_prove(measure, mean, attributes, ends, alpha)
    if few or bounds.low is None or bounds.high is None:
        return unproven, bounds.method, few
    return replace(plain, lower=bounds.low * scale, upper=bounds.high * scale), bounds.method, ""


def difference(
    measure: Measure,
    arms: tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]],
    attributes: SampleAttributes,
    chosen: Flags,
    ends: tuple[End, End],
    plain: Difference,
    alpha: float,
) -> Difference:
    """Return candidate minus baseline, positive where it is better, with every random factor counted.

    `plain` is the difference that counts the samples alone. Effect sizes are taken from it, without their intervals.
    """
    row = comparison_row(measure, arms[0][0].facts)
    unproven = without_interval(plain, row.title, attributes)
    if not row.counts_factors:
        return unproven
    try:
        mean, limits = mean_difference(measure, arms, attributes, chosen, ends)
    except NotEnoughData as refusal:
        return replace(unproven, note=str(refusal))
    if len(mean.sources) == 1:
        return plain
    from pytest_crucible.stats.factors.crossed import NORMAL

    bounds, few = stats.crossed_bounds(mean, alpha=alpha, bounds=limits), few_levels(mean.sources, attributes)
    interval = _clip_interval(stats.crossed_interval(mean, level=1 - alpha, bounds=limits), limits)
    counted = replace(
        unproven,
        value=mean.estimate,
        interval=interval,
        # Where slices are drawn they are the units, and samples are counted.
        n=len(mean.means) if row.is_mean else plain.n,
        method=NORMAL,
        bounds_method=bounds.method,
    )
    if few:
        return replace(counted, note=few)
    is_bounded = all(map(math.isfinite, limits))
    too_few = _too_few_to_prove(measure, mean, attributes, limits, alpha)
    by_bounds = isinstance(measure, Contrast) and measure.decided_by_bounds and is_bounded
    return replace(
        counted,
        p_value=stats.crossed_p_value(mean, bounds=limits),
        proof_p=stats.crossed_proof_p(mean, bounds=limits) if is_bounded else None,
        lower=None if too_few else bounds.low,
        upper=None if too_few else bounds.high,
        note=too_few or plain.note,
        detectable=partial(_detectable, mean, limits),
        samples=_samples(mean, limits, by_bounds=by_bounds) if row.is_mean else None,
    )


def _samples(mean: stats.CrossedMean, limits: Numbers, *, by_bounds: bool) -> Callable[..., int | None]:
    return partial(_samples_to_prove, mean, limits) if by_bounds else partial(_samples_to_find, mean)


def without_interval(plain: Difference, title: str, attributes: SampleAttributes) -> Difference:
    """Return the difference alone, with the reason: its statistic has no interval that counts the random factors."""
    return replace(
        plain,
        interval=None, p_value=None, p_exact=None, proof_p=None, alikeness=None, lower=None, upper=None,
        deviation=None, discordance=None, detectable=None, samples=None,
        effects=tuple(EffectSize(name=size.name, value=size.value, interval=None) for size in plain.effects),
        method=_no_method(attributes), bounds_method=_no_method(attributes), note=_no_method_note(title, attributes),
    )  # fmt: skip


def _detectable(mean: stats.CrossedMean, limits: Numbers, alpha: float) -> float | None:
    """Return what as many samples and levels show at a two-sided alpha; None beyond the range of the values."""
    detectable = stats.detectable_over_sources(mean.sources, alpha=alpha)
    return None if detectable is None or detectable > limits[1] else detectable


def _samples_to_find(mean: stats.CrossedMean, limit: float, alpha: float, power: float) -> int | None:
    """Return the samples with which the test of a regression gate finds the estimate, with as many levels of the factors."""
    size = len(mean.means) / mean.sources[0].levels
    needed = stats.samples_over_sources(mean.sources, abs(mean.estimate - limit), alpha=alpha, power=power)
    return needed and math.ceil(needed * size)


def _samples_to_prove(mean: stats.CrossedMean, limits: Numbers, limit: float, alpha: float, power: float) -> int | None:
    """Return the samples whose bound passes a limit, with as many levels of the factors; None if the levels forbid it."""
    from pytest_crucible.stats.factors.sources import bound_distance

    is_above = mean.estimate > limit
    by_levels = bound_distance(mean.levels, "lower" if is_above else "upper", alpha, limits)
    room = (mean.estimate - limit) ** 2 - by_levels**2
    if room <= 0:
        return None
    # The samples' part of the distance must fit into what the levels leave of it.
    sign = 1.0 if is_above else -1.0
    return stats.samples_by_gaffke(
        sign * np.clip(mean.means, *limits),
        null=sign * mean.estimate - math.sqrt(room), end=limits[0], alpha=alpha, power=power, clusters=mean.clusters,
    )  # fmt: skip


def mean_difference(
    measure: Measure,
    arms: tuple[Sequence[ScoredMetric], Sequence[ScoredMetric]],
    attributes: SampleAttributes,
    chosen: Flags,
    ends: tuple[End, End] = ("observed", "observed"),
) -> tuple[stats.CrossedMean, Numbers]:
    """Return the difference with its sources of variation, and the bounds of a difference of two values.

    Raises NotEnoughData below two samples, or five groups.
    """
    (ours, prepared), (theirs, _) = (
        _units(measure, metrics, attributes, chosen, end) for metrics, end in zip(arms, ends, strict=True)
    )
    facts = arms[0][0].facts
    pair = (
        (ours.cells, theirs.cells) if row_of(measure).higher_is_better(measure, facts) else (theirs.cells, ours.cells)
    )
    own = "rounds" if attributes.sessions == "of each arm" else "trainings"
    names = (f"{own} of the candidate", f"{own} of {getattr(measure, 'baseline', '') or 'the baseline'}")
    mean = stats.crossed_difference(
        _move_own(pair[0], own),
        _move_own(pair[1], own),
        [name for name in FACTORS if name != own],
        ours.clusters,
        fixed=_fixed_factors(attributes),
        trainings=names if pair[0] is ours.cells else names[::-1],
        fixed_trainings=own not in attributes.random_factors,
        ends=prepared.bounds,
        strata=ours.strata,
    )
    limits = change_bounds(prepared)
    # A lost reply may lie anywhere in the range here, and replies without a pair are left out of a sample's change.
    if (np.abs(mean.means) > limits[1] * (1 + 1e-9)).any():
        limits = change_bounds(replace(prepared, largest_change=None))
    return mean, limits


def _move_own(cells: Floats, own: str) -> Floats:
    """Return the cells with the factor that each arm has of its own next to the samples; sessions without a reply are left out."""
    moved = np.moveaxis(cells, 1 + FACTORS.index(own), 1)
    if own == "trainings":
        # A training that was lost is one that was to be counted.
        return moved
    return moved[:, ~np.isnan(moved).all(axis=(0, 2, 3))]


def arm_mean(
    measure: Measure, metrics: Sequence[ScoredMetric], attributes: SampleAttributes, chosen: Flags
) -> tuple[stats.CrossedMean, Numbers]:
    """Return the mean of one arm with its sources of variation, the factors in the order of FACTORS, and its bounds.

    Raises NotEnoughData below two samples, or five groups.
    """
    units, prepared = _units(measure, metrics, attributes, chosen)
    return _mean(units, attributes), prepared.bounds


def shown_alpha(
    measure: Measure, mean: stats.CrossedMean, attributes: SampleAttributes, limits: Numbers, alpha: float
) -> float:
    """Return the error rate of the interval that is shown: of two one-sided bounds, where these decide a comparison."""
    by_bounds = isinstance(measure, Contrast) and measure.decided_by_bounds
    too_few = few_levels(mean.sources, attributes) or _too_few_to_prove(measure, mean, attributes, limits, alpha)
    return 2 * alpha if by_bounds and not too_few else alpha


def few_levels(sources: Sequence[stats.Source], attributes: SampleAttributes) -> str:
    """Return why a random factor has too few levels for a verdict; empty if all have enough.

    Two sessions of a pool are enough for a test: it will have more of them.
    """
    fewest = FEWEST_LEVELS if attributes.sessions is None else 2
    for source in sources[1:]:
        if source.levels < fewest:
            return (
                f"{_levels_text(source, attributes)} cannot stand for others like {'it' if source.levels == 1 else 'them'}: a "
                f"random factor needs at least {fewest} levels for a verdict; {_remedy(source, attributes, fewest)}"
            )
    return ""


def _too_few_to_prove(
    measure: Measure, mean: stats.CrossedMean, attributes: SampleAttributes, ends: Numbers, alpha: float
) -> str:
    """Return why so few levels cannot prove a claim, whatever their values; empty if they could, or no bound decides it."""
    fewest = _fewest_to_prove(measure, ends, alpha)
    for source in mean.sources[1:]:
        if fewest is not None and source.levels < fewest:
            return (
                f"{_levels_text(source, attributes)} cannot prove this of others like them, whatever the replies, because rare "
                f"ones may be far worse: it takes {fewest} or more; {_remedy(source, attributes, fewest)}"
            )
    return ""


def _levels_text(source: stats.Source, attributes: SampleAttributes) -> str:
    """Return `3 trainings of v1`."""
    kind, _, arm = source.name.partition(" ")
    kind = kind if attributes.sessions is None else "sessions"
    return " ".join([quantity(source.levels, kind.removesuffix("s")), *([arm] if arm else [])])


def _remedy(source: stats.Source, attributes: SampleAttributes, levels: int) -> str:
    kind = source.name.partition(" ")[0]
    if attributes.sessions is not None:
        return "run more sessions, or declare fixed='rounds': the claim is then about these sessions alone"
    return _REMEDIES[kind].format(levels=levels)


def _fewest_to_prove(measure: Measure, ends: Numbers, alpha: float) -> int | None:
    """Return the fewest levels that can prove a claim or its opposite; None if no bound decides it."""
    low, high = ends
    if not all(map(math.isfinite, ends)):
        return None
    if isinstance(measure, Target):
        ways = [(high, measure.value, low), (-low, -measure.value, -high)]
    elif isinstance(measure, Contrast) and measure.decided_by_bounds:
        limit = measure.limit or 0.0
        if measure.alternative == "equivalent":
            ways = [(0.0, -limit, low), (high, limit, low)]
        else:
            turn = limit if measure.alternative == "superior" else -limit
            ways = [(high, turn, low), (-low, -turn, -high)]
    else:
        return None
    from pytest_crucible.stats.factors.sources import fewest_levels

    counts = [fewest_levels(*way, alpha) for way in ways]
    return min((count for count in counts if count is not None), default=None)


def _mean(units: CrossedUnits, attributes: SampleAttributes) -> stats.CrossedMean:
    return stats.crossed_mean(
        units.cells, FACTORS, units.clusters, fixed=_fixed_factors(attributes), strata=units.strata
    )


def _fixed_factors(attributes: SampleAttributes) -> tuple[str, ...]:
    return tuple(name for name in FACTORS if name not in attributes.random_factors)


def _units(
    measure: Measure,
    metrics: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    chosen: Flags,
    end: End = "observed",
) -> tuple[CrossedUnits, Prepared]:
    """Return the units of the mean, which are samples or slices of them, and the values of all replies."""
    cells, prepared = _cells(measure, metrics, chosen, end)
    clusters, make_units = attributes.clusters_at(chosen), row_of(measure).units
    slicing = choose_slices(measure, attributes, chosen)
    if make_units is None or slicing is None:
        return CrossedUnits(cells, clusters), prepared
    return make_units(measure, cells, slicing, clusters), prepared


def _cells(
    measure: Measure, metrics: Sequence[ScoredMetric], chosen: Flags, end: End = "observed"
) -> tuple[Floats, Prepared]:
    """Return the measure's value of each reply, averaged over repeats: samples x prompts x trainings x rounds.

    And the values of all replies, with their number.
    """
    units = metrics[0].scores.units
    assert units is not None, "scores have their units where a factor is random"
    values, lost = units.values[chosen], units.lost[chosen]
    row = row_of(measure)
    # A mean over slices is of the values that a plain mean is of.
    prepare = row.prepare if row.units is None else MEAN.prepare
    prepared = prepare(
        Observations(
            measure=measure,
            facts=tuple(metric.facts for metric in metrics),
            columns=(Column(values.ravel(), units.low[chosen].ravel(), units.high[chosen].ravel()),),
            lost=lost.ravel(),
        ),
        end,
    )
    # A condition is false for a missing reply, which must stay missing.
    there = ~np.isnan(values) | (lost if end != "observed" else False)
    cells = np.where(there, prepared.values.reshape(values.shape), np.nan)
    prepared, replies = replace(prepared, size=int(there.sum())), there.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.where(there, cells, 0.0).sum(axis=-1) / np.where(replies, replies, np.nan), prepared


def _clip_interval(interval: Interval | None, bounds: Numbers) -> Interval | None:
    return interval and replace(interval, low=max(interval.low, bounds[0]), high=min(interval.high, bounds[1]))


def _no_method(attributes: SampleAttributes) -> str:
    return NO_METHOD.format(factors=" and ".join(attributes.random_factors))


def _no_method_note(title: str, attributes: SampleAttributes) -> str:
    factors = " and ".join(attributes.random_factors)
    return (
        f"a {title} has no interval that counts {factors}: declare them fixed, or make the claim about a mean or a rate"
    )
