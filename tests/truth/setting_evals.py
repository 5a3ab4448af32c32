"""Grids of settings with known means: steps x rank, several trainings of each, whose answers share how hard a sample is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.stats import MarginalMeans, marginal_means
from pytest_crucible.stats.interval import NotEnoughData

Array = npt.NDArray[np.float64]
STEPS, RANKS = (1, 2, 3), (1, 2)
PASSAGE = 5


@dataclass(frozen=True, slots=True)
class SettingEval:
    """Members of every cell with so many trainings, whose true rates vary by `deviation` between seeds."""

    seeds: int
    n: int = 100
    deviation: float = 0.05
    scores: bool = False
    unequal: bool = False
    """Trainings of most steps vary three times as much."""
    shared: float = 0.0
    """The share of the trainings' variance that all trainings of a seed have in common."""
    interaction: float = 0.0
    """How much the samples that are hard differ between steps."""
    dropped: int = 0
    """Cells, drawn at random, of which a member was dropped."""
    clustered: bool = False
    ranks: tuple[int, ...] = RANKS

    @property
    def cells(self) -> list[tuple[int, int]]:
        return list(itertools.product(STEPS, self.ranks))

    @property
    def points(self) -> list[dict[str, int]]:
        return [
            {"steps": steps, "rank": rank, "seed": seed} for steps, rank in self.cells for seed in range(self.seeds)
        ]

    @property
    def clusters(self) -> npt.NDArray[np.intp] | None:
        return np.arange(self.n) // PASSAGE if self.clustered else None

    def draw(self, runs: int, seed: int) -> Iterator[Array]:
        """Yield samples x members values; a member that was dropped has none."""
        rng = np.random.default_rng(seed)
        for _ in range(runs):
            values = self._draw_values(rng)
            for cell in rng.choice(len(self.cells), self.dropped, replace=False):
                values[:, cell * self.seeds] = np.nan
            yield values

    def _draw_values(self, rng: np.random.Generator) -> Array:
        columns, members = len(self.cells) * self.seeds, [cell for cell in self.cells for _ in range(self.seeds)]
        own = rng.normal(size=(len(self.cells), self.seeds))
        trained = np.sqrt(1 - self.shared) * own + np.sqrt(self.shared) * rng.normal(size=self.seeds)
        spread = np.array([3.0 if self.unequal and steps == STEPS[-1] else 1.0 for steps, _ in members])
        truths = np.array([true_mean(*cell) for cell in members]) + self.deviation * spread * trained.ravel()
        hard = (
            0.7 * self._samples(rng, 1)
            + self.interaction * self._samples(rng, len(STEPS))[:, [member[0] - 1 for member in members]]
        )
        hard = (hard + np.sqrt(0.51) * rng.normal(size=(self.n, columns))) / np.sqrt(1 + self.interaction**2)
        return 0.2 * hard + truths if self.scores else (hard < ndtri(np.clip(truths, 0.001, 0.999))).astype(float)

    def _samples(self, rng: np.random.Generator, columns: int) -> Array:
        if not self.clustered:
            return rng.normal(size=(self.n, columns))
        passages = np.repeat(rng.normal(size=(self.n // PASSAGE, columns)), PASSAGE, axis=0)
        return np.asarray(0.6 * passages + 0.8 * rng.normal(size=(self.n, columns)))


def true_mean(steps: int, rank: int) -> float:
    """Return the mean over all trainings that there could be, and over all samples."""
    return 0.6 + 0.04 * steps - 0.03 * rank


SETTINGS = {
    f"{seeds} seeds, {name}": SettingEval(seeds, **more)  # type: ignore[arg-type]
    for seeds in (3, 5)
    for name, more in {
        "yes or no, alike": {"deviation": 0.0},
        "yes or no, 2 points": {"deviation": 0.02},
        "yes or no, 10 points": {"deviation": 0.1},
        "scores, 5 points, n=1,000": {"n": 1000, "scores": True},
        "the same, one setting": {"n": 1000, "scores": True, "ranks": (1,)},
        "the same, 5 and 15 points": {"n": 1000, "scores": True, "unequal": True},
        "the same, half of it by seed": {"n": 1000, "scores": True, "shared": 0.5},
        "yes or no, steps differ by sample": {"interaction": 1.0},
        "yes or no, 2 of 6 cells dropped": {"dropped": 2},
        "yes or no, passages, n=200": {"n": 200, "clustered": True},
    }.items()
}


class Covered(NamedTuple):
    """Intervals that contain the truth, and how many there are."""

    means: int
    of_means: int
    differences: int
    of_differences: int


def count_covered(case: SettingEval, runs: int, seed: int) -> Covered:
    """Return how many intervals of means and of differences contain the truth, over all runs."""
    counts = []
    for values in case.draw(runs, seed):
        try:
            result = marginal_means(values, case.points, clusters=case.clusters)
        except NotEnoughData:
            continue
        counts.append(_check(case, values, result))
    return Covered(*np.sum(counts, axis=0).tolist())


def _check(case: SettingEval, values: Array, result: MarginalMeans) -> tuple[int, ...]:
    truths = {
        (mean.setting, mean.level): _true_level_mean(case, values, mean.setting, mean.level) for mean in result.means
    }
    means = [mean.interval.low <= truths[mean.setting, mean.level] <= mean.interval.high for mean in result.means]
    steps = {"steps": 0.04, "rank": -0.03}
    differences = [
        (difference, steps[difference.setting] * (difference.level - difference.other))
        for difference in result.differences
    ]
    inside = [entry.interval.low <= truth <= entry.interval.high for entry, truth in differences]
    return sum(means), len(means), sum(inside), len(inside)


def _true_level_mean(case: SettingEval, values: Array, setting: str, level: int) -> float:
    """Return the truth over the combinations that are whole for all levels which have a whole cell."""
    whole = [
        cell
        for cell, columns in zip(case.cells, np.split(values, len(case.cells), axis=1), strict=True)
        if not np.isnan(columns).any()
    ]
    place = 0 if setting == "steps" else 1
    levels = {cell[place] for cell in whole}
    others = [
        other
        for other in {cell[1 - place] for cell in whole}
        if sum(cell[1 - place] == other for cell in whole) == len(levels)
    ]
    return float(np.mean([true_mean(*((level, other) if place == 0 else (other, level))) for other in others]))
