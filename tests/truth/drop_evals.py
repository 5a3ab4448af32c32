"""Drops of models whose replies vary: what targets and comparisons say about them, and how often they cover the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.analyse.targets import evaluate_target
from pytest_crucible.analyse.variant_scores import drop_scores
from pytest_crucible.plan.targets import parse_contrast, parse_target
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.measures import term_facts

ALPHA = 0.05
OK = MetricFacts(name="ok", kind="binary", low=0.0, high=1.0)
DROP = term_facts("ok.drop[a]", "drop", OK)
RIGHT = 0.8
"""The mean chance of beta(8, 2)."""
SIZES = [(50, 1), (100, 1), (100, 4), (400, 8), (1000, 1)]
"""Samples, and how many are in a group."""


@dataclass(frozen=True)
class Drops:
    """An experiment: its samples, those of a group, and the share of its right replies that the attack takes."""

    n: int
    group: int
    effect: float

    @property
    def name(self) -> str:
        groups = "independent" if self.group == 1 else f"groups of {self.group}"
        return f"{self.n} samples, {groups}, effect {self.effect:g}"


EXPERIMENTS = tuple(Drops(n, group, effect) for effect in (0.0, 0.3) for n, group in SIZES)


def chances(draw: np.random.Generator, n: int, size: int) -> np.ndarray:
    """Return each sample's chance of being right, beta(8, 2); samples of a group share most of theirs."""
    own = draw.beta(8, 2, n)
    return own if size == 1 else np.repeat(draw.beta(8, 2, -(-n // size)), size)[:n] * 0.8 + own * 0.2


def as_scores(values: np.ndarray) -> Scores:
    none = np.zeros(len(values), dtype=bool)
    values = np.asarray(values, dtype=float)
    return Scores(values, values, values, none, none)


def clusters(n: int, size: int) -> np.ndarray | None:
    return None if size == 1 else np.arange(n) // size


def count_covered(case: Drops, runs: int, seed: int) -> tuple[int, int, int]:
    """Return in how many runs the interval of a drop, its upper bound, and the interval of a difference of drops hold the truth.

    The baseline loses half as much as the candidate.
    """
    draw = np.random.default_rng(seed)
    attributes = SampleAttributes(clusters(case.n, case.group))
    target, contrast = parse_target("x <= 0.5"), parse_contrast("x", margin=0.1)
    covered = bounded = differences = 0
    for _ in range(runs):
        of_arms, truths = [], []
        for share in (case.effect, case.effect / 2):
            chance = chances(draw, case.n, case.group)
            clean, attacked = (
                as_scores((draw.random(case.n) < of).astype(float)) for of in (chance, chance * (1 - share))
            )
            of_arms.append([ScoredMetric(DROP, drop_scores(OK, clean, attacked))])
            truths.append(RIGHT * share)
        result = evaluate_target(target, of_arms[0], "v2", attributes, alpha=ALPHA)
        interval, bounds = result.estimate.interval, result.evidence.observed
        covered += interval.low <= truths[0] <= interval.high
        bounded += bounds.upper >= truths[0]
        compared = compare(contrast, "v2", (of_arms[0], of_arms[1]), attributes, alpha=ALPHA, family_size=1)
        # Signed so that positive is better, and a smaller drop is better.
        differences += compared.interval.low <= truths[1] - truths[0] <= compared.interval.high
    return covered, bounded, differences
