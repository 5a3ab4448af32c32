"""p-values of permutation tests from random arrangements: valid for any number of them, and with more where they are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pytest_crucible.stats.arrays import Array

# With the observed one, 10,000 arrangements: a p-value near 0.05 is then known to about 0.002.
DRAWS = 9_999
# Memory and seconds are bounded however many comparisons a session has: 10^-6 is Holm's first level of 50,000 of them.
MOST_DRAWS = 1_000_000
# Statistics, on the scale of t, that differ by less are ties. Ties count as extreme, so that the p-value stays valid, and noise
# far below the digits of a score cannot break them: it would change a verdict.
TIE = 1e-3

Draw = Callable[[int, np.random.Generator], Array]
"""Returns the statistic of so many random arrangements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonteCarlo:
    """The seed of random arrangements, and the smallest p-value that they have to resolve."""

    seed: int = 0
    finest: float = 1e-4
    draws: int = DRAWS
    """The first draws; only a statistic that none of them reaches gets more."""

    @property
    def most_draws(self) -> int:
        # The observed arrangement is one of them.
        return min(MOST_DRAWS, max(self.draws, round(1 / self.finest) - 1))


UNSEEDED = MonteCarlo()
"""What a caller without a seed of its own gets: seed 0, so that a result is the same each time."""


def resolve_for(alpha: float, family_size: int, seed: int) -> MonteCarlo:
    """Return the setting that resolves a hundredth of the first level of a Holm family.

    >>> resolve_for(0.05, 10, seed=7).most_draws
    19999
    """
    return MonteCarlo(seed=seed, finest=alpha / (100 * max(family_size, 1)))


def p_value_of_draws(draw: Draw, observed: float, setting: MonteCarlo) -> tuple[float, int]:
    """Return the p-value of a large statistic, and the number of draws behind it.

    p = (hits + 1) / (draws + 1) is valid for any number of draws (Phipson & Smyth 2010, Stat. Appl. Genet. Mol. Biol. 9:39). A
    statistic that none of the first draws reaches gets more of them. That keeps p valid: it is small only if the first draws and
    all of them together, each a test of its own, are (Besag & Clifford 1991, Biometrika 78:301).
    """
    rng = np.random.default_rng(setting.seed)
    hits, draws = _count_hits(draw(setting.draws, rng), observed), setting.draws
    if hits:
        return (hits + 1) / (draws + 1), draws
    while draws < setting.most_draws:
        following = min(DRAWS, setting.most_draws - draws)
        hits += _count_hits(draw(following, rng), observed)
        draws += following
    return min((hits + 1) / (draws + 1), 1 / (setting.draws + 1)), draws


def _count_hits(statistics: Array, observed: float) -> int:
    return int(np.count_nonzero(statistics >= observed - TIE))
