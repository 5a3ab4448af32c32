"""Scripted models with known attributions: scores of sets of segments, and replies that vary around them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from pytest_crucible.stats.attribution.sets import SetPlan, plan_sets
from pytest_crucible.stats.attribution.values import attribute

Array = np.ndarray


@cache
def memberships(segments: int) -> Array:
    """Return sets x segments: 1 where a segment stays, sets by their number."""
    return (np.arange(2**segments)[:, None] >> np.arange(segments) & 1).astype(float)


def need(stays: Array, size: int) -> Array:
    return stays[:, :size].prod(axis=1)


def weigh(stays: Array, rng: np.random.Generator) -> Array:
    return stays @ rng.dirichlet(np.ones(stays.shape[1]))


SHAPES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "null": lambda stays, rng: np.full(len(stays), 0.5),
    "null, rarely right": lambda stays, rng: np.full(len(stays), 0.03),
    "additive": lambda stays, rng: 0.1 + 0.8 * weigh(stays, rng),
    "sparse": lambda stays, rng: 0.1 + 0.3 * stays[:, 0] + 0.4 * stays[:, 1],
    "dominant": lambda stays, rng: 0.05 + 0.85 * stays[:, 0] + 0.02 * stays[:, 1],
    "necessary pair": lambda stays, rng: 0.1 + 0.5 * need(stays, 2) + 0.2 * stays[:, 2],
    "redundant pair": lambda stays, rng: 0.95 - 0.9 * need(1 - stays, 2),
    "three necessary": lambda stays, rng: 0.05 + 0.9 * need(stays, 3),
    "four redundant": lambda stays, rng: 0.95 - 0.9 * need(1 - stays, 4),
    "all necessary": lambda stays, rng: 0.02 + 0.96 * stays.prod(axis=1),
    "majority": lambda stays, rng: 0.1 + 0.8 * (stays.mean(axis=1) > 0.5),
    "weighted majority": lambda stays, rng: 0.05 + 0.9 * (stays @ rng.exponential(size=stays.shape[1]) > 0.8),
    "parity of three": lambda stays, rng: 0.5 + 0.4 * (-1) ** stays[:, :3].sum(axis=1),
    "gate": lambda stays, rng: 0.05 + 0.9 * stays[:, 0] * weigh(stays, rng),
    "two gates": lambda stays, rng: 0.05 + 0.9 * need(stays, 2) * weigh(stays, rng),
    "logistic": lambda stays, rng: 1 / (1 + np.exp(-(stays - 0.5) @ rng.normal(0, 1.5, stays.shape[1]))),
    "any function": lambda stays, rng: rng.uniform(0, 1, len(stays)),
}

REPLIES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "yes or no": lambda means, rng: rng.random(means.shape) < means,
    "three grades": lambda means, rng: rng.binomial(2, means) / 2,
    "a little noise": lambda means, rng: means + rng.normal(0, 0.05, means.shape),
    "much noise": lambda means, rng: means + rng.normal(0, 1.0, means.shape),
    "shares": lambda means, rng: rng.beta(3 * means, 3 * (1 - means)),
    "heavy tails": lambda means, rng: means + 0.1 * rng.standard_t(3, means.shape),
    "rare failures": lambda means, rng: means + np.where(rng.random(means.shape) < 0.1, -0.45, 0.05),
    "noise with the score": lambda means, rng: means + means * rng.normal(0, 0.5, means.shape),
}


def true_values(table: Array) -> Array:
    """Return the Shapley values of the scores of all sets, by the closed form."""
    segments = len(table).bit_length() - 1
    sizes = memberships(segments).sum(axis=1).astype(int)
    weights = np.array(
        [
            math.factorial(size) * math.factorial(segments - size - 1) / math.factorial(segments)
            for size in range(segments)
        ]
    )
    lacking = [np.flatnonzero(memberships(segments)[:, segment] == 0) for segment in range(segments)]
    return np.array(
        [weights[sizes[sets]] @ (table[sets | 1 << segment] - table[sets]) for segment, sets in enumerate(lacking)]
    )


def draw_runs(shape: str, replies: str, segments: int, calls: int, runs: int) -> Iterator[tuple[SetPlan, Array, Array]]:
    """Yield a plan, sets x draws scores, and the true values of each run; "fixed" replies do not vary."""
    rng = np.random.default_rng([segments, calls, *shape.encode(), *replies.encode()])
    for _ in range(runs):
        table = SHAPES[shape](memberships(segments), rng).clip(0.01, 0.99)
        plan = plan_sets(segments, calls, is_random=replies != "fixed", seed=int(rng.integers(2**31)))
        means = np.repeat(table[list(plan.masks)][:, None], plan.repeats, axis=1)
        yield plan, means if replies == "fixed" else REPLIES[replies](means, rng).astype(float), true_values(table)


def count_covered(shape: str, replies: str, segments: int, calls: int, runs: int) -> int:
    """Return the runs in which the intervals have the true values of all segments inside."""
    covered = 0
    for plan, scores, truth in draw_runs(shape, replies, segments, calls, runs):
        result = attribute(plan, scores)
        # An exact attribution has no width, and is computed in another order than the truth.
        slack = 1e-12 if result.is_exact else 0.0
        covered += bool(((result.low <= truth + slack) & (truth - slack <= result.high)).all())
    return covered
