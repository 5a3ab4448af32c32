"""Marginal means of settings: the effect of a level of a setting, averaged over the other settings of a grid.

Every cell of the grid weighs the same, as in R's emmeans, with any number of trainings. There are no claims about cells that
lack data: levels are compared only where the other settings are alike and both are whole. The random variation is that of
the trainings (within cells, with Satterthwaite's degrees of freedom, so that cells may vary differently) and that of the
samples, combined as in `sources`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, Range, check_share, finite_matrix, is_finite_range
from pytest_crucible.stats.factors.grids import Grid, Point, arrange_grid
from pytest_crucible.stats.factors.levels import samples_source
from pytest_crucible.stats.factors.sources import half_width, p_value
from pytest_crucible.stats.factors.trainings import trainings_source
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.multiplicity import holm

METHOD = "trainings and samples, t"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMean:
    """The mean of one level of a setting over the combinations of the others."""

    setting: str
    level: Hashable
    mean: float
    interval: Interval
    trainings: int
    cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDifference:
    """One level of a setting minus another, over the combinations of the other settings in which both are whole."""

    setting: str
    level: Hashable
    other: Hashable
    difference: float
    interval: Interval
    p_value: float
    p_adjusted: float
    """Holm over all differences of all settings."""
    trainings: int
    """Trainings of the two levels together."""
    cells: int
    """Combinations of the other settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalMeans:
    """Means and differences of all settings of a grid."""

    means: tuple[LevelMean, ...]
    differences: tuple[LevelDifference, ...]
    cells: int
    incomplete: int
    """Cells that are left out because a member of them lacks data."""
    n: int
    level: float
    without_means: tuple[str, ...] = ()
    """Settings of which no combination of the others has all levels."""


@dataclass(frozen=True, slots=True)
class _Trainings:
    """Scores, samples x members, with the training and the seed of each member."""

    values: Array
    grid: Grid
    trainings: Sequence[Hashable]
    seeds: Sequence[Hashable]
    clusters: Labels | None
    level: float
    bounds: Range | None


def marginal_means(
    values: npt.ArrayLike,
    points: Sequence[Point],
    *,
    seed: str = "seed",
    trainings: Sequence[Hashable] | None = None,
    clusters: Labels | None = None,
    bounds: Range | None = None,
    level: float = 0.95,
) -> MarginalMeans:
    """Return the marginal means of samples x members values; `points` are the members' settings, `seed` one of them.

    A column of NaN is a member that was dropped: its cell is left out as a whole. `trainings` has one label a member and is
    needed where members share a training, such as its checkpoints; by default each member is one. Differences take
    trainings as independent, means take those of one seed as related. Intervals of means are cut at `bounds`. Raises
    NotEnoughData where a cell has one training, below two samples, and below five clusters.

    R, for the trainings alone: emmeans(lm(score ~ steps * rank), "steps"), but with a variance of its own for each cell.

    >>> points = [{"steps": steps, "seed": seed} for steps in (9, 90) for seed in (1, 2, 3)]
    >>> scores = np.random.default_rng(1).normal([0.5, 0.5, 0.6, 0.7, 0.8, 0.7], 0.2, (200, 6))
    >>> [difference] = marginal_means(scores, points).differences
    >>> difference.level, difference.other, round(difference.difference, 2), round(difference.p_value, 3)
    (90, 9, 0.22, 0.019)
    """
    check_share(level, "level")
    matrix = np.asarray(values, dtype=np.float64)
    whole = np.asarray(~np.isnan(matrix).all(axis=0))
    matrix = np.where(whole, matrix, 0.0)
    grid = arrange_grid(points, seed, whole.tolist())
    _check_replicates(grid, [point.get(seed) for point in points], trainings)
    table = _Trainings(
        values=finite_matrix(matrix, rows="samples", columns="members"),
        grid=grid,
        trainings=range(len(points)) if trainings is None else trainings,
        seeds=[point.get(seed) for point in points],
        clusters=clusters,
        level=level,
        bounds=bounds if is_finite_range(bounds) else None,
    )
    means = {setting: _means(table, setting) for setting in grid.settings}
    return MarginalMeans(
        means=tuple(itertools.chain.from_iterable(means.values())),
        differences=_adjust([pair for setting in grid.settings for pair in _differences(table, setting)]),
        cells=len(grid.cells),
        incomplete=len(grid.incomplete),
        n=len(matrix),
        level=level,
        without_means=tuple(setting for setting, of_levels in means.items() if not of_levels),
    )


def _check_replicates(grid: Grid, seeds: Sequence[Hashable], trainings: Sequence[Hashable] | None) -> None:
    labels = seeds if trainings is None else trainings
    fewest = min((len({labels[member] for member in members}) for members in grid.cells.values()), default=0)
    if fewest < 2:
        raise NotEnoughData(
            "one training of each setting: a claim about a setting needs several, such as seed = [1, 2, 3]"
        )


def _means(table: _Trainings, setting: str) -> list[LevelMean]:
    """Return the means of a setting's levels over the same combinations of the others; none if there are none."""
    blocks = table.grid.blocks(setting, table.grid.levels(setting))
    means = []
    for level, cells in blocks.items():
        if cells:
            weights = _weights(table, cells)
            # Trainings of one seed may share their initialisation and the order of their data.
            mean, half, _ = _contrast(table, weights, table.seeds)
            low, high = mean - half, mean + half
            if table.bounds is not None:
                low, high = max(low, table.bounds[0]), min(high, table.bounds[1])
            interval = Interval(low=low, high=high, level=table.level, method=METHOD)
            count = _count_trainings(table, weights)
            means.append(
                LevelMean(setting=setting, level=level, mean=mean, interval=interval, trainings=count, cells=len(cells))
            )
    return means


def _differences(table: _Trainings, setting: str) -> list[LevelDifference]:
    differences = []
    for other, level in itertools.combinations(table.grid.levels(setting), 2):
        blocks = table.grid.blocks(setting, (other, level))
        if blocks[level]:
            weights = _weights(table, blocks[level]) - _weights(table, blocks[other])
            value, half, p = _contrast(table, weights, table.trainings)
            differences.append(
                LevelDifference(
                    setting=setting,
                    level=level,
                    other=other,
                    difference=value,
                    interval=Interval(low=value - half, high=value + half, level=table.level, method=METHOD),
                    p_value=p,
                    p_adjusted=p,
                    trainings=_count_trainings(table, weights),
                    cells=len(blocks[level]),
                )
            )
    return differences


def _adjust(differences: Sequence[LevelDifference]) -> tuple[LevelDifference, ...]:
    p_values = holm([difference.p_value for difference in differences])
    return tuple(replace(one, p_adjusted=float(p or 0.0)) for one, p in zip(differences, p_values, strict=True))


def _weights(table: _Trainings, cells: Sequence[Sequence[int]]) -> Array:
    """Return the weight of each member in the mean over cells."""
    weights = np.zeros(table.values.shape[1])
    for members in cells:
        weights[list(members)] = 1 / len(members) / len(cells)
    return weights


def _count_trainings(table: _Trainings, weights: Array) -> int:
    return len({table.trainings[member] for member in np.flatnonzero(weights).tolist()})


def _contrast(table: _Trainings, weights: Array, labels: Sequence[Hashable]) -> tuple[float, float, float]:
    """Return a weighted sum of members, the half-width of its interval, and its p-value. `labels` are independent."""
    estimate, samples = samples_source(table.values @ weights, table.clusters)
    used = np.flatnonzero(weights).tolist()
    cell_of = {member: cell for cell, members in table.grid.cells.items() for member in members}
    weighted = table.values[:, used] * weights[used]
    trainings = trainings_source(weighted, [labels[k] for k in used], [cell_of[k] for k in used], table.clusters)
    sources = (samples, trainings)
    if not any(source.variance for source in sources):
        raise NotEnoughData("neither samples nor trainings vary: the mean of a setting has no error to go by")
    return estimate, half_width(sources, 1 - table.level), p_value(sources, estimate)
