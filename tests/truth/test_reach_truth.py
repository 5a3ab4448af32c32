"""A declared reach: how often bounds that use it err, and the power that it gives back (`pytest -s` prints both)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from run_sizes import choose_runs
from simulation import at_least, at_most, show_share

from pytest_crucible import stats

pytestmark = pytest.mark.slow

ALPHA, REACH = 0.025, 0.25
Floats = npt.NDArray[np.float64]
SIZES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "2 % better by all of the reach": lambda rng, n: rare(rng, n, 0.02),
    "10 % better by all of the reach": lambda rng, n: rare(rng, n, 0.1),
    "2 % worse by all of the reach": lambda rng, n: -rare(rng, n, 0.02),
    "better or worse by all of the reach": lambda rng, n: rng.choice([-REACH, REACH], n),
    "uniform": lambda rng, n: rng.uniform(-REACH, REACH, n),
    "exponential": lambda rng, n: np.minimum(rng.exponential(0.05, n), REACH) - 0.05 * (1 - np.exp(-REACH / 0.05)),
}
"""Changes with a mean of 0 that lie within the reach."""


def rare(rng: np.random.Generator, n: int, share: float) -> Floats:
    """Some samples gain all of the reach, and the others lose as much together."""
    return np.where(rng.random(n) < share, REACH, -REACH * share / (1 - share))


def changes(rng: np.random.Generator, n: int, effect: float, deviation: float) -> Floats:
    """Beta-distributed changes within the reach."""
    mean, variance = (effect + REACH) / (2 * REACH), (deviation / (2 * REACH)) ** 2
    concentration = mean * (1 - mean) / variance - 1
    return rng.beta(mean * concentration, (1 - mean) * concentration, n) * 2 * REACH - REACH


def lower(change: Floats, reach: float | None) -> float:
    """The lower bound of the difference of scores between 0 and 1 with these changes."""
    bound = stats.difference_bounds(0.5 + change / 2, 0.5 - change / 2, bounds=(0, 1), alpha=ALPHA, reach=reach).low
    assert bound is not None
    return bound


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("shape", SIZES)
def test_changes_within_the_reach_rarely_prove_a_false_difference(shape, n):
    rng, runs = np.random.default_rng(n), choose_runs(4000)
    errors = sum(lower(SIZES[shape](rng, n), REACH) > 0 for _ in range(runs))

    assert at_most(show_share(f"{shape}, n {n}", errors, runs), runs, ALPHA)


@pytest.mark.parametrize(
    ("deviation", "n", "effect", "plain", "reached"), [(0.05, 50, 0.03, 0.0, 0.8), (0.2, 200, 0.04, 0.64, 0.77)]
)
def test_the_reach_gives_power_back(deviation, n, effect, plain, reached):
    """Return the power of a two-sided t at 5 %, of the bound by the range, and of the bound by the reach."""
    rng, runs = np.random.default_rng(7), choose_runs(4000)
    drawn = [changes(rng, n, effect, deviation) for _ in range(runs)]
    what = f"sd {deviation}, n {n}, effect {effect}"

    by_t = [stats.paired_t(change, alternative="greater").p_value <= ALPHA for change in drawn]
    show_share(f"{what}: t", sum(by_t), runs)
    without = show_share(f"{what}: bound", sum(lower(change, None) > 0 for change in drawn), runs)
    within = show_share(f"{what}: bound with reach {REACH}", sum(lower(change, REACH) > 0 for change in drawn), runs)
    assert at_most(without, runs, max(plain, 0.01))
    assert at_least(within, runs, reached)
