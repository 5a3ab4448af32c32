"""Means and differences of scores over crossed random factors, with their tests, bounds and variances.

Means and differences of scores whose prompts, trainings and rounds are random factors, crossed with the samples.
score[sample, prompt, round] = mean + sample + prompt + round + their interactions and noise. Each factor's part of the
mean's variance is that of its level means, s^2 / levels: in a complete design the mean square of the analysis of
variance, over the number of scores (Searle, Casella & McCulloch 1992, ch. 4; Brennan 2001, ch. 3). The samples' part is
that of the sample means, or CR2 over clusters. The interaction of two factors is contained in both their parts and
counted twice, which errs on the safe side.

Interval, p-values and one-sided bounds of a mean over crossed random factors.
Bounds of bounded values hold for levels of any distribution (`sources`), and intervals are such bounds. The p-value of a
regression gate, and everything about values without bounds, takes the levels of each factor for normal (`sources`).

The variance of single scores by source: samples, each factor, and the residual, each with an interval.
Moment estimates, and REML ones (R: lme4::lmer(y ~ 1 + (1|s) + (1|p) + (1|s:p)), for a second factor + (1|r) + (1|s:r))
where the design is complete and no estimate is below 0. Intervals are Williams's (1962, Biometrika 49:278).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    ROUNDING,
    Array,
    Codes,
    Labels,
    Range,
    Side,
    check_share,
    is_finite_range,
)
from pytest_crucible.stats.factors.sources import (
    SAMPLES,
    LevelMeans,
    Source,
    bound_distance,
    half_width,
    level_effects,
    level_means,
    level_source,
    mean_over,
    means_of_levels,
    p_value,
    sample_means,
    samples_source,
    strata_source,
    tail_of_distance,
)
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.moments import equal_differences_p_value, point_mass_p_value
from pytest_crucible.stats.means.stratified import stratum_weights
from pytest_crucible.stats.results import Bounds

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedMean:
    """A mean and the sources of its random variation, the samples first."""

    estimate: float
    sources: tuple[Source, ...]
    means: Array
    """The mean of each sample that has a score."""
    clusters: Labels | None
    """The cluster of each sample in `means`."""
    cells: Array
    """The averaged scores (differences), samples x factors; NaN is lost."""
    levels: tuple[LevelMeans, ...]
    """The level means of each factor, in the order of `sources` after the samples."""
    weights: Array | None = None
    """The weight of each sample in the mean; None: all alike."""

    @property
    def variance(self) -> float:
        """An estimate of the mean's variance, with each part counted once and none below 0."""
        samples, *factors = self.sources
        return samples.variance + sum(max(factor.variance - factor.floor, 0.0) for factor in factors)

    @property
    def parts(self) -> tuple[LevelMeans, ...]:
        """The means of the samples and of the levels of each factor, in the order of `sources`."""
        return LevelMeans(values=self.means, clusters=self.clusters, weights=self.weights), *self.levels


def crossed_mean(
    scores: npt.ArrayLike,
    factors: Sequence[str],
    clusters: Labels | None = None,
    *,
    fixed: Collection[str] = (),
    strata: Codes | None = None,
) -> CrossedMean:
    """Return the mean of scores over samples (the first axis) and the named factors (the further axes, in order).

    Factors are random, except `fixed` ones: the mean is then about their levels alone. NaN is a lost score; samples
    without any score are left out. The mean is that of the samples' means; with `strata`, the number of each sample's from 0 on,
    it is that of the strata's means. Raises ValueError if names and axes do not fit, and NotEnoughData below two samples (of a
    stratum), or five clusters.

    >>> scores = [[0.9, 0.7, 0.8], [0.5, 0.4, 0.3], [0.7, 0.6, 0.8], [0.6, 0.3, 0.6]]
    >>> mean = crossed_mean(scores, ["prompts"])
    >>> round(mean.estimate, 4), [(source.name, round(source.variance, 5)) for source in mean.sources]
    (0.6, [('samples', 0.00833), ('prompts', 0.00271)])
    """
    cells = _check(scores, factors)
    scored = _scored_samples(cells)
    return _with_sources(cells[scored], factors, _labels_at(clusters, scored), fixed, strata=_codes_at(strata, scored))


def crossed_difference(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    factors: Sequence[str],
    clusters: Labels | None = None,
    *,
    fixed: Collection[str] = (),
    trainings: tuple[str, str] | None = None,
    fixed_trainings: bool = False,
    ends: Range | None = None,
    strata: Codes | None = None,
) -> CrossedMean:
    """Return the mean of candidate - baseline over samples and factors that both arms share, paired cell by cell.

    With `trainings`, the names of both arms' trainings, the second axis of each arm is its own trainings: those are not
    paired, and there may be more of one arm; with `fixed_trainings` the difference is about these alone. `ends` are those of a
    score, for bounds over trainings. A cell without a score in either arm is left out. The rest is as in `crossed_mean`.

    >>> old, new = [[0.5, 0.4], [0.2, 0.4], [0.9, 0.8]], [[0.6, 0.6], [0.5, 0.4], [0.9, 1.0]]
    >>> round(crossed_difference(new, old, ["rounds"]).estimate, 4)
    0.1333
    """
    arms = [_check(scores, [*(["trainings"] if trainings else []), *factors]) for scores in (candidate, baseline)]
    averaged = [mean_over(arm, (1,)) if trainings else arm for arm in arms]
    cells = averaged[0] - averaged[1]
    # Equal scores differ by rounding if they were summed in another order.
    cells[np.abs(cells) <= ROUNDING * np.maximum(*np.abs(averaged))] = 0.0
    missing, scored = np.isnan(cells), _scored_samples(cells)
    labels, codes = _labels_at(clusters, scored), _codes_at(strata, scored)
    own = [
        _Table(name, _weight_rows(level_means(np.where(missing[:, None], np.nan, arm)[scored], 1), codes), ends, sign)
        for arm, name, sign in zip(arms, trainings or (), (1.0, -1.0), strict=False)
        if arm.shape[1] > 1 and not fixed_trainings
    ]
    return _with_sources(cells[scored], factors, labels, fixed, own, codes)


class _Table(NamedTuple):
    """The scores of samples x levels of one factor, with their ends where these are not those of the mean."""

    name: str
    scores: Array
    ends: Range | None = None
    sign: float = 1.0


def _with_sources(
    cells: Array,
    factors: Sequence[str],
    clusters: Labels | None,
    fixed: Collection[str],
    own: Sequence[_Table] = (),
    strata: Codes | None = None,
) -> CrossedMean:
    means = sample_means(cells)
    of_samples = samples_source(means, clusters) if strata is None else strata_source(means, strata, clusters)
    estimate, samples = of_samples
    shared = [
        _Table(name, _weight_rows(level_means(cells, axis), strata))
        for axis, name in enumerate(factors, 1)
        if name not in fixed and cells.shape[axis] > 1
    ]
    tables = [*shared, *own]
    return CrossedMean(
        estimate=estimate,
        sources=(samples, *(level_source(table.scores, table.name, clusters) for table in tables)),
        means=means,
        clusters=clusters,
        cells=cells,
        levels=tuple(means_of_levels(table.scores, table.ends, table.sign) for table in tables),
        weights=None if strata is None else stratum_weights(strata),
    )


def _weight_rows(table: Array, strata: Codes | None) -> Array:
    """Return scores of samples x levels times the samples' weights, so that their plain mean is that of the strata's means."""
    return table if strata is None else table * (len(table) * stratum_weights(strata))[:, None]


def _check(scores: npt.ArrayLike, factors: Sequence[str]) -> Array:
    cells = np.asarray(scores, dtype=np.float64)
    if cells.ndim != len(factors) + 1:
        raise ValueError(
            f"scores have {cells.ndim} axes for samples and {len(factors)} factors: give one axis for the samples, "
            "and then one for each factor"
        )
    infinite = int(np.isinf(cells).sum())
    if infinite:
        raise ValueError(f"{infinite} of {cells.size} scores are infinite; drop or replace them first")
    return cells


def _scored_samples(cells: Array) -> Flags:
    """Return the samples with a score in some cell."""
    return np.asarray(~np.isnan(cells).all(axis=tuple(range(1, cells.ndim))))


def _labels_at(clusters: Labels | None, scored: Flags) -> Labels | None:
    return None if clusters is None else [label for label, flag in zip(clusters, scored, strict=True) if flag]


def _codes_at(strata: Codes | None, scored: Flags) -> Codes | None:
    """Return the strata of the scored samples. Raises NotEnoughData for a stratum without one."""
    if strata is None:
        return None
    codes = np.asarray(strata)[scored]
    if len(np.unique(codes)) < len(np.unique(strata)):
        raise NotEnoughData("a slice has no score")
    return codes


NORMAL = "crossed t"
BY_LEVELS = "gaffke over levels"
_SIDES: tuple[Side, ...] = ("lower", "upper")


def crossed_interval(mean: CrossedMean, *, level: float = 0.95, bounds: Range | None = None) -> Interval | None:
    """Return the two-sided interval: the bounds at half of the error rate each. None if nothing varies and no bounds are known."""
    check_share(level, "level")
    ends = crossed_bounds(mean, alpha=(1 - level) / 2, bounds=bounds)
    if ends.low is None or ends.high is None:
        return None
    return Interval(low=ends.low, high=ends.high, level=level, method=ends.method)


def crossed_p_value(mean: CrossedMean, *, bounds: Range | None = None) -> float:
    """Return the two-sided p-value of "the mean is 0" for normal levels; where nothing varies, that of equal differences."""
    if not _is_constant(mean):
        return p_value(mean.sources, mean.estimate)
    flipped = equal_differences_p_value(mean.estimate, _units(mean))
    if bounds is None or not is_finite_range(bounds):
        return flipped
    return max(flipped, point_mass_p_value(mean.estimate, _units(mean), bounds=bounds))


def crossed_proof_p(mean: CrossedMean, *, bounds: Range) -> float:
    """Return the two-sided p-value of `crossed_bounds` for "the mean is 0": twice the smaller one of the two bounds, at most 1.

    Raises ValueError for infinite bounds, with which nothing is proven.
    """
    if not is_finite_range(bounds):
        raise ValueError(f"a proof needs finite bounds of the values, not {bounds!r}")
    if not mean.estimate:
        return 1.0
    side: Side = "lower" if mean.estimate > 0 else "upper"
    return min(1.0, 2 * tail_of_distance(mean.parts, side, abs(mean.estimate), bounds))


def crossed_bounds(mean: CrossedMean, *, alpha: float, bounds: Range | None = None) -> Bounds:
    """Return the two one-sided bounds at `alpha` each, by which a margin or a target is decided.

    With finite `bounds` of the values they hold for any distribution of samples and levels; without, for normal ones. None if
    nothing varies and no bounds are known.
    """
    check_share(alpha, "alpha")
    if bounds is not None and is_finite_range(bounds):
        below, above = (bound_distance(mean.parts, side, alpha, bounds) for side in _SIDES)
        low, high = max(mean.estimate - below, bounds[0]), min(mean.estimate + above, bounds[1])
        return Bounds(low=low, high=high, method=BY_LEVELS)
    if _is_constant(mean):
        return Bounds(low=None, high=None, method=NORMAL)
    half = half_width(mean.sources, min(2 * alpha, 0.999))
    low, high = mean.estimate - half, mean.estimate + half
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Bounds(low=low, high=high, method=NORMAL)


def _is_constant(mean: CrossedMean) -> bool:
    return not any(source.variance for source in mean.sources)


def _units(mean: CrossedMean) -> int:
    return mean.sources[0].levels


RESIDUAL = "residual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """The variance of a single score that one source explains."""

    name: str
    levels: int
    """Number of levels: of samples, of prompts. Of the residual, the number of scores."""
    variance: float
    """Never below 0: an estimate below 0 means that the levels differ less than chance explains."""
    low: float
    high: float


def variance_table(scores: npt.ArrayLike, factors: Sequence[str], *, level: float = 0.95) -> tuple[Component, ...]:
    """Return the components of scores: samples (the first axis), the named factors (further axes), and the residual.

    The residual contains noise and all interactions. NaN is a lost score.
    """
    check_share(level, "level")
    cells = np.asarray(scores, dtype=np.float64)
    cells = cells[~np.isnan(cells).reshape(len(cells), -1).all(axis=1)]
    parts = [level_source(level_means(cells, axis), name) for axis, name in enumerate(factors, 1)]
    noise, dof = _interaction_free_noise(cells)
    cells_per_sample = math.prod(cells.shape[1:])
    # The part of a sample's mean that comes from each factor's floor and the noise; the noise is in every floor.
    within = len(cells) * sum(part.floor for part in parts) - (len(parts) - 1) * noise / cells_per_sample
    means = sample_means(cells)
    samples = component(SAMPLES, len(cells), float(means.var(ddof=1)), len(cells) - 1.0, within, level)
    residual = noise + sum(
        max(len(cells) * part.floor * part.levels - noise * part.levels / cells_per_sample, 0.0) for part in parts
    )
    observed = int((~np.isnan(cells)).sum())
    return (
        samples,
        *(factor_component(part, level) for part in parts),
        component(RESIDUAL, observed, residual, max(dof, 1.0), 0.0, level),
    )


def variances_of_mean(mean: CrossedMean, factors: Sequence[str], *, level: float = 0.95) -> tuple[Component, ...]:
    """Return the components of the scores (differences) that a crossed mean is of; `factors` name its further axes.

    Factors with one level are left out; the trainings of single arms, over which cells are averaged, go before the residual.
    Where no factor is left, the samples contain the residual.
    """
    shape = mean.cells.shape
    several = [name for name, levels in zip(factors, shape[1:], strict=True) if levels > 1]
    cells = mean.cells.reshape(len(mean.cells), *(levels for levels in shape[1:] if levels > 1))
    own = [source for source in mean.sources if source.name != SAMPLES and source.name not in several]
    *parts, residual = variance_table(cells, several, level=level)
    ending = (residual,) if several else ()
    return (*parts, *(factor_component(source, level) for source in own), *ending)


def factor_component(part: Source, level: float) -> Component:
    """Return the component of one factor from its part of a mean's variance."""
    return component(part.name, part.levels, part.variance * part.levels, part.dof, part.floor * part.levels, level)


def component(name: str, levels: int, mean_square: float, dof: float, floor: float, level: float) -> Component:
    """Return mean_square - floor with Williams's interval, which takes `mean_square` as chi-squared and the floor as known."""
    from scipy.special import gammaincinv

    tails = (1 + level) / 2, (1 - level) / 2
    low, high = (dof * mean_square / (2 * float(gammaincinv(dof / 2, tail))) - floor for tail in tails)
    return Component(
        name=name,
        levels=levels,
        variance=max(mean_square - floor, 0.0),
        low=max(low, 0.0),
        high=max(high, 0.0),
    )


def _interaction_free_noise(cells: Array) -> tuple[float, float]:
    """Return the variance within samples after the means of each sample's levels are removed, and its dof.

    With one factor nothing would remain, so the level means over all samples are removed instead.
    """
    observed = ~np.isnan(cells)
    if cells.ndim == 2:
        left = level_effects(cells)[1]
        dof = float(observed.sum() - len(cells) - (cells.shape[1] - 1))
    else:
        centred = cells - np.expand_dims(sample_means(cells), tuple(range(1, cells.ndim)))
        tables = [(axis, level_means(centred, axis)) for axis in range(1, cells.ndim)]
        left = centred - sum(
            np.expand_dims(table, tuple(other for other in range(1, cells.ndim) if other != axis))
            for axis, table in tables
        )
        dof = float(observed.sum() - len(cells) - sum((~np.isnan(table)).sum() - len(cells) for _, table in tables))
    return (float(np.nansum(np.square(left))) / dof if dof > 0 else 0.0), dof
