"""The variance of single scores by source: samples, each factor, and the residual, each with an interval.

Moment estimates, and REML ones (R: lme4::lmer(y ~ 1 + (1|s) + (1|p) + (1|s:p)), for a second factor + (1|r) + (1|s:r))
where the design is complete and no estimate is below 0. Intervals are Williams's (1962, Biometrika 49:278).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from pytest_crucible.stats.arrays import Array, check_share
from pytest_crucible.stats.factors.crossed import CrossedMean
from pytest_crucible.stats.factors.levels import SAMPLES, level_effects, level_means, level_source, sample_means
from pytest_crucible.stats.factors.sources import Source

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

    >>> for part in variance_table([[0.9, 0.7, 0.8], [0.5, 0.4, 0.3], [0.7, 0.6, 0.8], [0.6, 0.3, 0.6]], ["prompts"]):
    ...     print(part.name, round(part.variance, 4), round(part.low, 4), round(part.high, 4))
    samples 0.0303 0.0076 0.4603
    prompts 0.0058 0.0 0.3186
    residual 0.0092 0.0038 0.0445
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
    seen = int((~np.isnan(cells)).sum())
    return (
        samples,
        *(factor_component(part, level) for part in parts),
        component(RESIDUAL, seen, residual, max(dof, 1.0), 0.0, level),
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
    tails = (1 + level) / 2, (1 - level) / 2
    low, high = (dof * mean_square / (2 * float(scipy.special.gammaincinv(dof / 2, tail))) - floor for tail in tails)
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
    seen = ~np.isnan(cells)
    if cells.ndim == 2:
        left = level_effects(cells)[1]
        dof = float(seen.sum() - len(cells) - (cells.shape[1] - 1))
    else:
        centred = cells - np.expand_dims(sample_means(cells), tuple(range(1, cells.ndim)))
        tables = [(axis, level_means(centred, axis)) for axis in range(1, cells.ndim)]
        left = centred - sum(
            np.expand_dims(table, tuple(other for other in range(1, cells.ndim) if other != axis))
            for axis, table in tables
        )
        dof = float(seen.sum() - len(cells) - sum((~np.isnan(table)).sum() - len(cells) for _, table in tables))
    return (float(np.nansum(np.square(left))) / dof if dof > 0 else 0.0), dof
