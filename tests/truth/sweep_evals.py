"""Sweeps with known means: samples x members, whose answers share how hard a sample is; some samples share a passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pytest_crucible.stats import bound_chosen_arm, compare_chosen_arm, pairwise_intervals, rank_arms

Array = npt.NDArray[np.float64]
PASSAGE = 5


@dataclass(frozen=True, slots=True)
class SweepEval:
    """Members with these true means on n samples."""

    n: int
    means: tuple[float, ...]
    kind: Literal["yes or no", "scores"] = "yes or no"
    clustered: bool = False

    @property
    def truths(self) -> Array:
        return np.array(self.means)

    @property
    def clusters(self) -> npt.NDArray[np.intp] | None:
        return np.arange(self.n) // PASSAGE if self.clustered else None

    def draw(self, runs: int, seed: int) -> Iterator[Array]:
        """Yield samples x members values. Scores are cubes of uniform numbers, so they are skewed."""
        rng = np.random.default_rng(seed)
        for _ in range(runs):
            chances = ndtr(0.7 * self._normal(rng, 1) + np.sqrt(0.51) * self._normal(rng, len(self.means)))
            yield (chances < self.truths).astype(float) if self.kind == "yes or no" else chances**3 + self.truths - 0.25

    def _normal(self, rng: np.random.Generator, columns: int) -> Array:
        own = rng.normal(size=(self.n, columns))
        if not self.clustered:
            return own
        return 0.8 * own + 0.6 * np.repeat(rng.normal(size=(self.n // PASSAGE, columns)), PASSAGE, axis=0)


def equal(members: int, rate: float = 0.6) -> tuple[float, ...]:
    return (rate,) * members


def spread(members: int, low: float, high: float) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, members).tolist())


def lift(case: Sequence[float], by: float) -> tuple[float, ...]:
    """Return the means with the first one higher."""
    return (case[0] + by, *case[1:])


RANKED = {
    "3 tied": SweepEval(50, equal(3)),
    "8 tied": SweepEval(50, equal(8)),
    "32 tied": SweepEval(50, equal(32)),
    "8 tied near 1": SweepEval(50, equal(8, 0.9)),
    "8 tied, scores": SweepEval(100, equal(8), "scores"),
    "8 tied, passages": SweepEval(200, equal(8), clustered=True),
    "32 tied, passages": SweepEval(200, equal(32), clustered=True),
    "8 in two ties": SweepEval(100, (0.5,) * 4 + (0.7,) * 4),
    "8 apart": SweepEval(100, spread(8, 0.3, 0.9)),
}


class RightRuns(NamedTuple):
    """Runs in which each statement is right."""

    ranks: int
    """All true ranks are possible ones."""
    best: int
    """Every truly best arm is among those not proven worse than the best."""
    differences: int
    """All true differences from the arm with the highest mean are inside their intervals."""


def count_right(case: SweepEval, runs: int, seed: int, *, draws: int = 2_000) -> RightRuns:
    """Return in how many of the runs each statement is right."""
    return RightRuns(*np.sum([_check(case, values, draws) for values in case.draw(runs, seed)], axis=0).tolist())


def _check(case: SweepEval, values: np.ndarray, draws: int) -> tuple[bool, bool, bool]:
    truths = 1 + (case.truths[None, :] > case.truths[:, None]).sum(axis=1)
    result = rank_arms(values, clusters=case.clusters, draws=draws)
    intervals = pairwise_intervals(result.comparisons, bounds=(0.0, 1.0) if case.kind == "yes or no" else None)
    winner = int(np.argmax(result.comparisons.means))
    differences = case.truths - case.truths[winner]
    low, high = intervals.low[:, winner] - 1e-9, intervals.high[:, winner] + 1e-9
    return (
        all(rank.best <= true <= rank.worst for rank, true in zip(result.ranks, truths, strict=True)),
        set(np.flatnonzero(truths == 1).tolist()) <= set(result.not_proven_worse),
        bool(((low <= differences) & (differences <= high)).all()),
    )


CHOSEN = {
    f"{members} members, {name}": SweepEval(n, equal(members + 1, rate), kind, clustered=clustered)
    for members in (2, 8, 32)
    for name, n, rate, kind, clustered in (
        ("yes or no", 50, 0.6, "yes or no", False),
        ("yes or no near 1", 50, 0.9, "yes or no", False),
        ("scores", 100, 0.6, "scores", False),
        ("passages", 200, 0.6, "yes or no", True),
        ("passages near 1", 200, 0.9, "yes or no", True),
    )
}


class FalseClaims(NamedTuple):
    """Runs with a false claim about the member that the same samples chose; all members equal the baseline."""

    differences: int
    """The winner differs from the baseline."""
    proofs: int
    """The winner's lower bound is above its true mean."""


def count_false(case: SweepEval, runs: int, seed: int) -> FalseClaims:
    """Return the runs with a false claim. The first arm is the baseline."""
    return FalseClaims(*np.sum([_claim(case, values) for values in case.draw(runs, seed)], axis=0).tolist())


def _claim(case: SweepEval, values: Array) -> tuple[bool, bool]:
    baseline, *arms = values.T
    winner = max(arms, key=np.mean)
    is_binary = case.kind == "yes or no"
    how = {
        "arms": len(arms),
        "kind": "binary" if is_binary else "bounded",
        "bounds": (0.0, 1.0) if is_binary else (-1.0, 2.0),
    }
    p_value = compare_chosen_arm(winner, baseline, clusters=case.clusters, **how).p_value
    bound = bound_chosen_arm(winner, clusters=case.clusters, **how).value
    return p_value is not None and p_value <= 0.05, bound is not None and bound > case.means[0] + 1e-9
