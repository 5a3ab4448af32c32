"""Evaluations whose prompts, rounds or trainings vary: two arms that do not differ over all levels that there could be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorEval:
    """One design. Deviations are those of the true difference between the arms, on the scale of a rate."""

    n: int
    levels: Mapping[str, int]
    deviations: Mapping[str, float]
    """How much the levels of each factor suit one of the arms."""
    suits: float = 0.1
    """How much a sample does."""
    suits_level: float = 0.0
    """How much a sample does at a single level of the first factor."""
    lost: float = 0.0
    """Share of lost replies."""
    groups: int = 0
    """Samples are in so many groups, which suit one of the arms as samples do; 0: there are no groups."""
    effect: float = 0.0

    def clusters(self) -> Codes | None:
        return np.arange(self.n) % self.groups if self.groups else None

    def draw(self, runs: int, seed: int = 0) -> Iterator[tuple[Array, Array]]:
        """Yield candidate and baseline of each run: right or wrong, samples x levels of each factor; NaN is lost."""
        rng = np.random.default_rng([seed, self.n, *self.levels.values()])
        for _ in range(runs):
            better = self._better(rng) / 2
            # Without a clip at 0 and 1, which would move the mean: half of the replies are right.
            arms = [(rng.random(better.shape) < 0.5 + side * better).astype(np.float64) for side in (1, -1)]
            for arm in arms:
                arm[rng.random(arm.shape) < self.lost] = np.nan
            yield arms[0], arms[1]

    def _better(self, rng: np.random.Generator) -> Array:
        shape = (self.n, *self.levels.values())
        better = np.full(shape, self.effect)
        for axis, (name, levels) in enumerate(self.levels.items(), 1):
            better += rng.normal(0, self.deviations.get(name, 0.0), _along(axis, levels, shape))
        better += rng.normal(0, self.suits, _along(0, self.n, shape))
        if self.groups:
            better += rng.normal(0, self.suits, self.groups)[self.clusters()].reshape(_along(0, self.n, shape))
        if self.suits_level:
            better += rng.normal(0, self.suits_level, (*shape[:2], *(1 for _ in shape[2:])))
        return better


def _along(axis: int, size: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size if number == axis else 1 for number in range(len(shape)))


def rounds(levels: int, deviation: float, n: int = 1000, **facts: float) -> FactorEval:
    return FactorEval(n=n, levels={"rounds": levels}, deviations={"rounds": deviation}, **facts)


def prompts(levels: int, deviation: float, n: int = 100, **facts: float) -> FactorEval:
    return FactorEval(n=n, levels={"prompts": levels}, deviations={"prompts": deviation}, suits_level=0.1, **facts)


def both(prompt_deviation: float, round_deviation: float, **facts: float) -> FactorEval:
    return FactorEval(
        n=200,
        levels={"prompts": 5, "rounds": 3},
        deviations={"prompts": prompt_deviation, "rounds": round_deviation},
        suits_level=0.1,
        **facts,
    )


FACTOR_EVALS: Mapping[str, FactorEval] = {
    "n=1,000, 3 rounds, run noise 0": rounds(3, 0.0),
    "n=1,000, 3 rounds, run noise 2 points": rounds(3, 0.02),
    "n=1,000, 3 rounds, run noise 4 points": rounds(3, 0.04),
    "n=1,000, 3 rounds, run noise 10 points": rounds(3, 0.1),
    "n=1,000, 5 rounds, run noise 2 points": rounds(5, 0.02),
    "n=1,000, 5 rounds, run noise 4 points": rounds(5, 0.04),
    "n=1,000, 10 rounds, run noise 4 points": rounds(10, 0.04),
    "n=100, 3 prompts, alike": prompts(3, 0.0),
    "n=100, 3 prompts, 10 points": prompts(3, 0.1),
    "n=100, 5 prompts, alike": prompts(5, 0.0),
    "n=100, 5 prompts, 10 points": prompts(5, 0.1),
    "n=100, 10 prompts, 10 points": prompts(10, 0.1),
    "n=20, 5 prompts, 10 points": prompts(5, 0.1, n=20),
    "n=100, 5 prompts, 10 points, 3 % lost": prompts(5, 0.1, lost=0.03),
    "n=100, 5 prompts, 10 points, 20 % lost": prompts(5, 0.1, lost=0.2),
    "n=120 in 20 groups, 5 prompts, 10 points": prompts(5, 0.1, n=120, groups=20),
    "n=200, 5 prompts x 3 rounds, alike": both(0.0, 0.0),
    "n=200, 5 prompts x 3 rounds, 5 points each": both(0.05, 0.05),
    "n=200, 5 prompts x 3 rounds, rounds 20 points": both(0.0, 0.2),
}
