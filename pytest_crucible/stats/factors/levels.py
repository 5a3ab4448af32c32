"""The part of a mean's variance that comes from the choice of samples, and from the levels of one factor."""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import ROUNDING, Array, Labels, cluster_codes, cluster_totals, is_constant
from pytest_crucible.stats.factors.sources import Source
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.number_format import quantity

SAMPLES = "samples"
_TURNS = 12
"""Steps of least squares on incomplete tables. Each gains a digit or more if fewer than half of the scores are lost."""


def sample_means(cells: Array) -> Array:
    """Return each sample's mean over its scores; NaN is a lost score.

    >>> sample_means(np.array([[1.0, 0.0], [0.5, np.nan]]))
    array([0.5, 0.5])
    """
    return mean_over(cells, tuple(range(1, cells.ndim)))


def level_means(cells: Array, axis: int) -> Array:
    """Return each sample's mean at each level of the factor on an axis: samples x levels; NaN if all scores are lost."""
    return mean_over(cells, tuple(other for other in range(1, cells.ndim) if other != axis))


def mean_over(cells: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean over some axes without the lost scores; NaN if all are lost."""
    seen = ~np.isnan(cells)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(seen, cells, 0.0).sum(axis=axes) / seen.sum(axis=axes))


def samples_source(means: Array, clusters: Labels | None = None) -> tuple[float, Source]:
    """Return the mean and the samples' part of its variance, from one mean a sample.

    Raises NotEnoughData below two samples, or five clusters.

    >>> mean, samples = samples_source(np.array([0.5, 0.7, 0.6, 0.8]))
    >>> round(mean, 3), round(samples.variance, 5), samples.dof
    (0.65, 0.00417, 3.0)
    """
    if clusters is None:
        if means.size < 2:
            raise NotEnoughData(f"{quantity(means.size, 'sample')}: a mean's uncertainty needs at least 2")
        se = 0.0 if is_constant(means) else standard_error(means)
        return float(means.mean()), Source(name=SAMPLES, levels=means.size, dof=means.size - 1.0, variance=se * se)
    robust = clustered_mean(means, clusters)
    return robust.estimate, Source(name=SAMPLES, levels=robust.clusters, dof=robust.dof, variance=robust.se**2)


def level_source(table: Array, name: str, clusters: Labels | None = None) -> Source:
    """Return the part of one factor, from a table of samples x levels in which NaN is lost.

    The variance is s^2 / levels of the level means. The floor is the part of it that comes from noise and from
    interactions with samples (clusters), which the samples' part contains too. A level without any score does not count.

    >>> prompts = level_source(np.array([[0.9, 0.7, 0.8], [0.5, 0.4, 0.3], [0.7, 0.6, 0.8], [0.6, 0.3, 0.6]]), "prompts")
    >>> prompts.levels, round(prompts.variance, 5), round(prompts.floor, 5)
    (3, 0.00271, 0.00076)
    """
    table = table[:, ~np.isnan(table).all(axis=0)]
    seen, levels = ~np.isnan(table), table.shape[1]
    if levels < 2:
        return Source(name=name, levels=levels, dof=0.0, variance=0.0)
    means, left = level_effects(table)
    # Lost scores make some levels weigh more in the mean than others, which counts as fewer levels.
    weight = float(np.square((seen / seen.sum(axis=1, keepdims=True)).mean(axis=0)).sum())
    codes, count = (np.arange(len(table)), len(table)) if clusters is None else cluster_codes(clusters, len(table))
    totals = np.stack([cluster_totals(codes, column) for column in (left / seen.sum(axis=0)).T])
    correction = count / (count - 1) / (levels - 1) if count > 1 else 0.0
    return Source(
        name=name,
        levels=levels,
        dof=levels - 1.0,
        # Without this, levels that differ by rounding alone would count as a source of noise.
        variance=float(means.var(ddof=1)) * weight if np.ptp(means) > ROUNDING * np.nanmax(np.abs(table)) else 0.0,
        floor=correction * float(np.square(totals).sum()) * weight,
    )


def level_effects(table: Array) -> tuple[Array, Array]:
    """Return the effect of each level of a table of samples x levels, and the residuals (0 for a lost score).

    Effects are within samples, so that a level does not look better because it lost hard samples.
    """
    seen = ~np.isnan(table)
    left, effects = np.where(seen, table, 0.0), np.zeros(table.shape[1])
    # Alternating least squares: a complete table needs one step.
    for _ in range(1 if seen.all() else _TURNS):
        left = np.where(seen, left - (left.sum(axis=1) / seen.sum(axis=1))[:, None], 0.0)
        step = left.sum(axis=0) / seen.sum(axis=0)
        left, effects = np.where(seen, left - step, 0.0), effects + step
    return effects, left
