"""Drops of a judge that errs, some samples of which have people's labels: how often the corrected interval has the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pytest_crucible import stats
from pytest_crucible.stats.means.clustered import clustered_interval

UNIT = (0.0, 1.0)
CLEAN, DROP = 0.85, 0.15
"""The true share of right replies, and how much less it is under the attack."""
LENIENT, STRICT = 0.25, 0.05
"""How often the judge calls a wrong attacked reply right, and any right reply wrong."""


@dataclass(frozen=True)
class Labelled:
    """An experiment: its samples, those with labels, the samples of a group, and the replies to each."""

    n: int
    labels: int
    group: int = 1
    repeats: int = 1
    whole_groups: bool = False
    """Groups are labelled whole, not samples at random."""
    alike: float = 0.5
    """The share of samples that have their group's chance, and that of replies that do not vary."""

    @property
    def name(self) -> str:
        groups = "independent" if self.group == 1 else f"groups of {self.group}"
        how = " that are alike" if self.alike == 1 else ""
        how += ", whole groups labelled" if self.whole_groups else ""
        return f"{groups}{how}" + (f", {self.repeats} replies" if self.repeats > 1 else "")


EXPERIMENTS = (
    Labelled(400, 50),
    Labelled(400, 200),
    Labelled(400, 50, repeats=3),
    Labelled(400, 50, group=4),
    Labelled(400, 100, group=4, whole_groups=True),
    Labelled(400, 100, group=10),
    Labelled(400, 100, group=10, whole_groups=True),
    Labelled(400, 100, group=4, repeats=3),
    Labelled(1000, 200, group=20),
    Labelled(400, 100, group=10, whole_groups=True, alike=1.0),
    Labelled(400, 200, group=10, whole_groups=True, alike=1.0),
    Labelled(400, 100, group=10, alike=1.0),
)


def draw_replies(rng: np.random.Generator, case: Labelled) -> tuple[np.ndarray, np.ndarray]:
    """Return whether clean and attacked replies are right: 2 x samples x repeats."""
    groups = -(-case.n // case.group)
    shared = np.repeat(rng.random(groups), case.group)[: case.n]
    own = rng.random(case.n)
    quantiles = np.where(rng.random(case.n) < case.alike, shared, own)
    limits = np.array([CLEAN, CLEAN - DROP])
    noise = rng.random((2, case.n, case.repeats))
    is_fixed = rng.random(case.n) < case.alike
    uniform = np.where(is_fixed[None, :, None], quantiles[None, :, None], noise)
    right = uniform < limits[:, None, None]
    mistaken = np.where(
        right, rng.random(right.shape) < STRICT, rng.random(right.shape) < np.array([0, LENIENT])[:, None, None]
    )
    return right, right ^ mistaken


def choose_labelled(rng: np.random.Generator, case: Labelled) -> np.ndarray:
    if not case.whole_groups:
        return np.isin(np.arange(case.n), rng.choice(case.n, case.labels, replace=False))
    groups = rng.choice(case.n // case.group, case.labels // case.group, replace=False)
    return np.isin(np.arange(case.n) // case.group, groups)


def corrected_drops(case: Labelled, runs: int, seed: int = 0) -> Iterator[tuple[bool, bool, float]]:
    """Yield whether the corrected interval has the true drop, whether the judge's own has, and the corrected width."""
    rng = np.random.default_rng([seed, case.n, case.labels, case.group, case.repeats])
    groups = np.arange(case.n) // case.group
    clusters = groups if case.group > 1 else None
    for _ in range(runs):
        right, judged = (each.astype(float) for each in draw_replies(rng, case))
        chosen = choose_labelled(rng, case)
        labels = np.where(chosen, right[:, :, 0], np.nan)
        predictions = np.where(chosen, judged[:, :, 0], judged.mean(axis=2))
        drop = stats.ppi_difference(*labels, *predictions, bounds=UNIT, clusters=clusters)
        first, second = judged.mean(axis=2)
        own = (
            clustered_interval(stats.clustered_mean(first - second, groups), level=0.95)
            if case.group > 1
            else stats.paired_t(first, second).interval
        )
        yield has_truth(drop.interval), has_truth(own), drop.interval.high - drop.interval.low


def has_truth(interval: object) -> bool:
    return interval.low <= DROP <= interval.high  # type: ignore[attr-defined]
