"""Runs that are planned again from the difference that a first run says it can detect: is its power the 80 % that it names?

The first run is of equal arms. The second is drawn separately, with the printed difference as the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_crucible.analyse.next_run import detectable_difference
from pytest_crucible.measures.means import compare_means
from pytest_crucible.measures.row import Difference, Prepared
from pytest_crucible.stats import gaffke_bound, samples_by_gaffke
from pytest_crucible.stats.planning.proof import detectable_by_falls

Array = np.ndarray
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class YesOrNo:
    """Pairs of which a share disagrees; where the difference is larger than it, all changes go one way."""

    n: int
    discordance: float

    def differences(self, rng: np.random.Generator, truth: float) -> Array:
        both, draws = max(self.discordance, truth), rng.random(self.n)
        return np.where(draws < (both + truth) / 2, 1.0, np.where(draws < both, -1.0, 0.0))

    def compare(self, differences: Array) -> Difference | None:
        arms = (Prepared(values=(differences == side).astype(float), kind="binary", bounds=(0, 1)) for side in (1, -1))
        return compare_means(*arms, ALPHA)


@dataclass(frozen=True, slots=True)
class InGroups:
    """Scores in groups of these sizes, whose differences correlate with 0.3; groups of 1 are single samples."""

    sizes: Sequence[int]
    icc: float = field(default=0.3)

    @property
    def _labels(self) -> Array:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def differences(self, rng: np.random.Generator, truth: float) -> Array:
        shared = rng.standard_normal(len(self.sizes))[self._labels]
        own = rng.standard_normal(sum(self.sizes))
        return truth + math.sqrt(self.icc) * shared + math.sqrt(1 - self.icc) * own

    def compare(self, differences: Array) -> Difference | None:
        facts: dict[str, Any] = {"clusters": None if set(self.sizes) == {1} else self._labels}
        arms = (Prepared(values=values, **facts) for values in (differences, np.zeros_like(differences)))
        return compare_means(*arms, ALPHA)


EVALUATIONS: dict[str, YesOrNo | InGroups] = {
    "yes or no, 50 pairs, 2 % differ": YesOrNo(50, 0.02),
    "yes or no, 50 pairs, 20 % differ": YesOrNo(50, 0.2),
    "yes or no, 200 pairs, 1 % differ": YesOrNo(200, 0.01),
    "yes or no, 200 pairs, 3 % differ": YesOrNo(200, 0.03),
    "yes or no, 1,000 pairs, 3 % differ": YesOrNo(1000, 0.03),
    "scores, 10 pairs": InGroups([1] * 10),
    "scores, 100 pairs": InGroups([1] * 100),
    "scores, 6 groups of 20": InGroups([20] * 6),
    "scores, 12 groups of 1 to 20": InGroups([1, 2, 2, 3, 3, 5, 5, 8, 8, 13, 13, 20]),
    "scores, 40 groups of 5": InGroups([5] * 40),
}


def power_at_the_printed_value(name: str, replicates: int, seed: int) -> tuple[float, float]:
    """Return the share of runs that print a difference, and the share of new runs that prove it."""
    evaluation, rng = EVALUATIONS[name], np.random.default_rng(seed)
    printed = [
        detectable_difference(evaluation.compare(evaluation.differences(rng, 0.0)), ALPHA) for _ in range(replicates)
    ]
    truths = [truth for truth in printed if truth is not None]
    return len(truths) / replicates, float(np.mean([_proves(evaluation, rng, truth) for truth in truths]))


def _proves(evaluation: YesOrNo | InGroups, rng: np.random.Generator, truth: float) -> bool:
    result = evaluation.compare(evaluation.differences(rng, truth))
    return result is not None and result.p_value is not None and result.p_value <= ALPHA


@dataclass(frozen=True, slots=True)
class Bounded:
    """Scores between two ends, whose mean is to be proven to lie above a limit; `sizes` are those of groups."""

    draw: Callable[[np.random.Generator, int], Array]
    end: float
    limit: float
    group: int = 1


PLANNED: dict[str, Bounded] = {
    "differences, standard deviation .25": Bounded(lambda rng, n: rng.normal(0, 0.25, n).clip(-1, 1), -1.0, -0.05),
    "differences, 5 % lose .6 to 1": Bounded(
        lambda rng, n: -(rng.random(n) < 0.05).astype(float) * rng.uniform(0.6, 1, n), -1.0, -0.14
    ),
    "scores near .9": Bounded(lambda rng, n: rng.beta(9, 1, n), 0.0, 0.85),
    "scores, a quarter 0": Bounded(lambda rng, n: (rng.random(n) < 0.75) * rng.beta(3, 1, n), 0.0, 0.48),
    "differences in groups of 5": Bounded(
        lambda rng, n: (np.repeat(rng.normal(0, 0.14, n // 5), 5) + rng.normal(0, 0.2, 5 * (n // 5))).clip(-1, 1),
        -1.0,
        -0.06,
        group=5,
    ),
}
"""Targets and margins, at sizes that are planned from 4,000 values."""


def power_at_the_planned_size(name: str, replicates: int, seed: int) -> float:
    """Return the share of runs of the planned size that prove the limit."""
    planned, rng = PLANNED[name], np.random.default_rng(seed)

    def how(n: int) -> dict[str, Any]:
        clusters = None if planned.group == 1 else np.repeat(np.arange(n // planned.group), planned.group)
        return {"end": planned.end, "alpha": ALPHA, "clusters": clusters}

    # The median of several plans, so that the chance of one sample is not that of the plan.
    n = int(
        np.median([samples_by_gaffke(planned.draw(rng, 4000), null=planned.limit, **how(4000)) or 0 for _ in range(9)])
    )
    n -= n % planned.group
    runs = (planned.draw(rng, n) for _ in range(replicates))
    return float(np.mean([gaffke_bound(run, side="lower", **how(n)) > planned.limit for run in runs]))


@dataclass(frozen=True, slots=True)
class Falling:
    """Scores from 0 to 1, of which a share falls to 0 in the new arm; without falls the arms differ by noise."""

    n: int
    draw: Callable[[np.random.Generator, int], Array]
    noise: float
    group: int = 1

    def arms(self, rng: np.random.Generator, share: float) -> tuple[Array, Array]:
        old, noise = self.draw(rng, self.n), rng.normal(0, self.noise, self.n)
        return np.where(rng.random(self.n) < share, 0.0, old + noise), old

    def compare(self, new: Array, old: Array) -> Difference | None:
        clusters = None if self.group == 1 else np.arange(self.n) // self.group
        # The noise reaches beyond the ends; the test of alikeness uses no bounds.
        facts: dict[str, Any] = {"kind": "bounded", "bounds": (-2.0, 3.0), "clusters": clusters}
        return compare_means(*(Prepared(values=values, **facts) for values in (new, old)), ALPHA)


def _likert(rng: np.random.Generator, n: int) -> Array:
    return rng.choice([0.5, 0.75, 1.0], n, p=[0.2, 0.3, 0.5])


FALLING = {
    "near 1, 50 pairs": Falling(50, lambda rng, n: rng.beta(9, 1, n), 0.1),
    "near 1, 200 pairs": Falling(200, lambda rng, n: rng.beta(9, 1, n), 0.1),
    "near 1, 200 pairs, hardly any noise": Falling(200, lambda rng, n: rng.beta(9, 1, n), 0.02),
    "Likert, 20 pairs": Falling(20, _likert, 0.1),
    "Likert, 200 pairs, much noise": Falling(200, _likert, 0.25),
    "uniform, 50 pairs": Falling(50, lambda rng, n: rng.random(n), 0.1),
    "near 1, 40 groups of 5": Falling(200, lambda rng, n: rng.beta(9, 1, n), 0.1, group=5),
}


def power_at_the_printed_falls(name: str, replicates: int, seed: int) -> float:
    """Return the share of new runs that show the loss which a first run of equal arms prints."""
    falling, rng, count = FALLING[name], np.random.default_rng(seed), 0
    for _ in range(replicates):
        new, old = falling.arms(rng, 0.0)
        first = falling.compare(new, old)
        assert first is not None
        assert first.deviation is not None
        loss = detectable_by_falls(falling.n, first.deviation, old, dof=first.dof, alpha=ALPHA)
        assert loss is not None
        result = falling.compare(*falling.arms(rng, loss / float(old.mean())))
        assert result is not None
        count += result.p_value is not None and result.p_value <= ALPHA
    return count / replicates
