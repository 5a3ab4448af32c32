"""Looks at groups of unequal sizes: a claim about samples is rarely proven where it is false, whatever goes with size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from run_sizes import choose_runs
from simulation import at_least, at_most

from pytest_crucible.measures.row import Prepared
from pytest_crucible.measures.sequences import wealth_against

pytestmark = pytest.mark.slow

ALPHA = 0.05
RUNS = choose_runs(800)
Groups = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Design:
    """Groups of two sizes, each with its rate; `whole` groups are all right or all wrong."""

    large: int
    share: float
    rates: tuple[float, float]
    """Of large groups, and of single samples."""
    groups: int = 150
    whole: bool = False

    @property
    def mean(self) -> float:
        large = self.share * self.large
        return (large * self.rates[0] + (1 - self.share) * self.rates[1]) / (large + 1 - self.share)

    def draw(self, rng: np.random.Generator) -> Groups:
        """Return the sizes and the means of groups."""
        is_large = rng.random(self.groups) < self.share
        sizes = np.where(is_large, self.large, 1)
        rates = np.where(is_large, *self.rates)
        if self.whole:
            return sizes, (rng.random(self.groups) < rates).astype(float)
        return sizes, rng.binomial(sizes, rates) / sizes


DESIGNS = {
    "large groups are harder": Design(20, 0.3, (0.5, 0.9), groups=260),
    "large groups are easier": Design(20, 0.3, (0.9, 0.5), groups=260),
    "large groups fail whole": Design(20, 0.1, (0.7, 0.98), groups=200, whole=True),
    "rare large groups fail whole": Design(40, 0.05, (0.9, 1.0), groups=300, whole=True),
    "sizes alike": Design(5, 1.0, (0.8, 0.8)),
}


def is_refuted(sizes: np.ndarray, means: np.ndarray, mean: float, side: str, largest: int) -> bool:
    """Return whether a mean over samples is refuted at any look."""
    values, clusters = np.repeat(means, sizes), np.repeat(np.arange(sizes.size), sizes)
    prepared = Prepared(values=values, clusters=clusters, kind="bounded", bounds=(0.0, 1.0), heaviest=largest)
    return bool(wealth_against(prepared, mean, ALPHA, side)[-1] > math.log(1 / ALPHA))


@pytest.mark.parametrize("side", ["lower", "upper"])
@pytest.mark.parametrize("name", DESIGNS)
def test_the_mean_over_samples_is_rarely_refuted(name, side):
    """Groups that count equally proved "large groups are harder" in every run."""
    rng, design = np.random.default_rng([31, len(name)]), DESIGNS[name]
    wrong = sum(is_refuted(*design.draw(rng), design.mean, side, design.large) for _ in range(RUNS))

    assert at_most(wrong, RUNS, ALPHA)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_the_mean_of_one_dataset_in_random_order_is_rarely_refuted(side):
    """The groups of a dataset are drawn without replacement: 78 of 20 at 50 %, and 182 single ones at 90 %."""
    rng = np.random.default_rng(32)
    sizes, rates = np.repeat([20, 1], [78, 182]), np.repeat([0.5, 0.9], [78, 182])
    mean, wrong = float((sizes * rates).sum() / sizes.sum()), 0
    for _ in range(RUNS):
        order = rng.permutation(sizes.size)
        means = rng.binomial(sizes, rates) / sizes
        wrong += is_refuted(sizes[order], means[order], mean, side, 20)

    assert at_most(wrong, RUNS, ALPHA)


def test_there_is_power_with_unequal_groups():
    """100 groups of 1 to 20 prove a limit that is .1 away in 9 of 10 runs."""
    rng, runs = np.random.default_rng(33), choose_runs(300)
    proven = sum(is_refuted(rng.integers(1, 21, 100), rng.beta(8, 2, 100), 0.7, "lower", 20) for _ in range(runs))

    assert at_least(proven, runs, 0.85)
