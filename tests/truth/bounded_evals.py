"""Values between known ends, and groups of them, whose mean is known: what bounds of a mean are tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
PAIRS, ARM = (-1.0, 1.0), (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """A distribution on `bounds` with its mean."""

    bounds: tuple[float, float]
    mean: float
    draw: Draw


def _steps(values: list[float], chances: list[float], bounds: tuple[float, float] = PAIRS) -> Shape:
    return Shape(bounds, float(np.dot(values, chances)), lambda rng, size: rng.choice(values, size, p=chances))


def _normal(spread: float) -> Shape:
    return Shape(PAIRS, 0.0, lambda rng, size: np.clip(rng.normal(0, spread, size), -1, 1))


def _rare(share: float, low: float, high: float) -> Shape:
    """Normal values, of which a share are uniform instead."""

    def draw(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return np.where(rng.random(size) < share, rng.uniform(low, high, size), rng.normal(0, 0.05, size))

    return Shape(PAIRS, share * (low + high) / 2, draw)


def _zeros(rng: np.random.Generator, size: tuple[int, ...]) -> Array:
    return np.where(rng.random(size) < 0.25, 0.0, rng.beta(4, 2, size))


SHAPES = {
    "normal, sd .05": _normal(0.05),
    "normal, sd .1": _normal(0.1),
    "normal, sd .2": _normal(0.2),
    "normal, sd .3": _normal(0.3),
    "t(3), scaled to .1": Shape(PAIRS, 0.0, lambda rng, size: np.clip(0.1 * rng.standard_t(3, size), -1, 1)),
    "2 % lose all": _steps([-1, 0], [0.02, 0.98]),
    "2 % gain all": _steps([1, 0], [0.02, 0.98]),
    "2 % lose .6 to 1": _rare(0.02, -1, -0.6),
    "5 % lose .6 to 1": _rare(0.05, -1, -0.6),
    "5 % gain .6 to 1": _rare(0.05, 0.6, 1),
    "98 % lose .016, 2 % gain .8": _steps([-0.016, 0.8], [0.98, 0.02]),
    "levels, rare collapses": _steps([-1, -0.25, 0, 0.25], [0.025, 0.1, 0.675, 0.2]),
    "two points": _steps([-0.3, 0.3], [0.5, 0.5]),
    "pairs of yes and no": _steps([-1, 0, 1], [0.1, 0.8, 0.1]),
    "beta(.3, 3)": Shape(ARM, 1 / 11, lambda rng, size: rng.beta(0.3, 3, size)),
    "beta(9, 1)": Shape(ARM, 0.9, lambda rng, size: rng.beta(9, 1, size)),
    "a quarter 0": Shape(ARM, 0.5, _zeros),
    "uniform": Shape(ARM, 0.5, lambda rng, size: rng.random(size)),
    "constant": Shape(ARM, 0.7, lambda rng, size: np.full(size, 0.7)),
}


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of pairs: sizes and their chances, the mean of a group of each size, and the chance to be lost whole."""

    sizes: list[int]
    chances: list[float]
    effects: list[float]
    lost: list[float]

    @property
    def mean(self) -> float:
        """The mean over values, not over groups."""
        effect = (1 - np.array(self.lost)) * self.effects - np.array(self.lost)
        weights = np.multiply(self.sizes, self.chances)
        return float(effect @ weights / weights.sum())

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Return the values of `count` groups and the group of each."""
        kind = rng.choice(len(self.sizes), count, p=self.chances)
        sizes = np.array(self.sizes)[kind]
        # Uniform, so that the ends cut nothing off and the mean is exact.
        level = np.array(self.effects)[kind] + rng.uniform(-0.2, 0.2, count)
        lost = rng.random(count) < np.array(self.lost)[kind]
        labels = np.repeat(np.arange(count), sizes)
        return np.where(lost[labels], -1.0, level[labels] + rng.uniform(-0.2, 0.2, labels.size)), labels.astype(
            np.float64
        )


_PARETO = [60.0 * s**-1.5 for s in (1, 2, 4, 8, 16, 30, 60)]
_PARETO_CHANCES = [chance / sum(_PARETO) for chance in _PARETO]
GROUPS = {
    "equal": Groups([5], [1.0], [0.0], [0.0]),
    "equal, 1 in 20 lost whole": Groups([5], [1.0], [0.05], [0.05]),
    "1 to 20": Groups([1, 2, 5, 10, 20], [0.2] * 5, [0.0] * 5, [0.0] * 5),
    "1 to 20, large ones worse": Groups([1, 2, 5, 10, 20], [0.2] * 5, [0.3, 0.2, 0.1, 0.0, -0.1], [0.0] * 5),
    "1 to 20, large ones better": Groups([1, 2, 5, 10, 20], [0.2] * 5, [-0.3, -0.2, -0.1, 0.0, 0.1], [0.0] * 5),
    "1 to 20, 1 in 10 large ones lost whole": Groups([1, 2, 5, 10, 20], [0.2] * 5, [0.0] * 5, [0, 0, 0, 0, 0.1]),
    "1 and 20, all large ones lost": Groups([1, 20], [0.9, 0.1], [0.1, 0.0], [0.0, 1.0]),
    "Pareto to 60": Groups([1, 2, 4, 8, 16, 30, 60], _PARETO_CHANCES, [0.0] * 7, [0.0] * 7),
    "Pareto to 60, large ones worse": Groups(
        [1, 2, 4, 8, 16, 30, 60], _PARETO_CHANCES, [0.1, 0.1, 0.05, 0, -0.05, -0.1, -0.2], [0.0] * 7
    ),
}
