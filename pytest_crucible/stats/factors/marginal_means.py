"""Marginal means of settings: the effect of a level of a setting, averaged over the other settings of a grid.

Every cell of the grid weighs the same, as in R's emmeans, with any number of trainings. There are no claims about cells that
lack data: levels are compared only where the other settings are alike and both are whole. The random variation is that of
the trainings (within cells, with Satterthwaite's degrees of freedom, so that cells may vary differently) and that of the
samples, combined as in `sources`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    Array,
    Labels,
    Range,
    check_share,
    finite_matrix,
    is_finite_range,
)
from pytest_crucible.stats.factors.sources import Source, half_width, level_source, p_value, samples_source
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.multiplicity import holm

Point = Mapping[str, Hashable]
Cell = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The members of a sweep by the cell that their settings name, replicates (trainings of other seeds) together."""

    settings: tuple[str, ...]
    """Settings with two levels or more, the replicates' own not among them."""
    cells: Mapping[Cell, tuple[int, ...]]
    """The levels of the settings, in their order -> positions of the members."""
    incomplete: frozenset[Cell] = field(default=frozenset())
    """Cells with a member that lacks data. The rest of such a cell may be the luckier part."""

    def levels(self, setting: str) -> tuple[Hashable, ...]:
        """Return the levels of a setting that have a whole cell, in the order of the grid."""
        place = self.settings.index(setting)
        return tuple(dict.fromkeys(cell[place] for cell in self.cells if cell not in self.incomplete))

    def blocks(self, setting: str, levels: Sequence[Hashable]) -> dict[Hashable, list[tuple[int, ...]]]:
        """Return each level's cells, where the other settings are alike: only combinations in which all levels are whole.

        >>> points = [{"steps": steps, "rank": rank, "seed": 1} for steps in (9, 30) for rank in (8, 32)]
        >>> grid = arrange_grid(points, "seed", [True, True, True, False])
        >>> grid.blocks("steps", [9, 30])
        {9: [(0,)], 30: [(2,)]}
        """
        place = self.settings.index(setting)
        whole: dict[Cell, dict[Hashable, tuple[int, ...]]] = {}
        for cell, members in self.cells.items():
            if cell not in self.incomplete:
                whole.setdefault(cell[:place] + cell[place + 1 :], {})[cell[place]] = members
        shared = [by_level for by_level in whole.values() if set(levels) <= set(by_level)]
        return {level: [by_level[level] for by_level in shared] for level in levels}


def arrange_grid(points: Sequence[Point], replicate: str, whole: Sequence[bool]) -> Grid:
    """Return the grid of members with these settings; `replicate` is the setting that only repeats a training (the seed)."""
    names = [name for name in points[0] if name != replicate] if points else []
    settings = tuple(name for name in names if len({point[name] for point in points}) > 1)
    cells: dict[Cell, list[int]] = {}
    for member, point in enumerate(points):
        cells.setdefault(tuple(point[name] for name in settings), []).append(member)
    incomplete = (cell for cell, members in cells.items() if not all(whole[member] for member in members))
    return Grid(
        settings=settings,
        cells={cell: tuple(members) for cell, members in cells.items()},
        incomplete=frozenset(incomplete),
    )


def trainings_source(
    weighted: Array, trainings: Sequence[Hashable], cells: Sequence[Hashable], clusters: Labels | None = None
) -> Source:
    """Return the source of variation of the sum of the columns of samples x members, by their trainings.

    Columns are scores times weights, each with the label of its training and of its cell. Trainings are independent; those
    that stand for the same cells are a sample of such trainings, and their sum over S of them varies by S s^2. Cells may
    vary differently: the degrees of freedom are Satterthwaite's (1946, Biometrics Bulletin 2:110). Raises NotEnoughData where
    a training is the only one for its cells.
    """
    members: dict[Hashable, list[int]] = {}
    for member, training in enumerate(trainings):
        members.setdefault(training, []).append(member)
    alike: dict[frozenset[Hashable], list[Array]] = {}
    for of_training in members.values():
        alike.setdefault(frozenset(cells[member] for member in of_training), []).append(
            weighted[:, of_training].sum(axis=1)
        )
    if any(len(columns) < 2 for columns in alike.values()):
        raise NotEnoughData("one training of some settings: a claim about a setting needs several of each")
    parts = [(len(columns), level_source(np.stack(columns, axis=1), "", clusters)) for columns in alike.values()]
    variances = np.array([count * count * part.variance for count, part in parts])
    total = float(variances.sum())
    squares = float((variances**2 / [part.dof for _, part in parts]).sum())
    return Source(
        name="trainings",
        levels=len(members),
        dof=total * total / squares if squares else float(sum(part.dof for _, part in parts)),
        variance=total,
        floor=float(sum(count * count * part.floor for count, part in parts)),
    )


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
    return tuple(
        replace(difference, p_adjusted=float(p or 0.0)) for difference, p in zip(differences, p_values, strict=True)
    )


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
