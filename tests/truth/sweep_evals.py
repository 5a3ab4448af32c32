"""Sweeps with known means: samples x members, whose answers share how hard a sample is; some samples share a passage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

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


def lift(known: Sequence[float], by: float) -> tuple[float, ...]:
    """Return the means with the first one higher."""
    return (known[0] + by, *known[1:])
