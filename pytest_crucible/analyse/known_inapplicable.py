"""Samples whose expected decision shows that a metric does not apply, even if their reply is lost or failed.

A false-positive rate is about samples that expect the other answer. A lost reply to a sample that expects the favourable one
cannot change it, and a refused one is not a false positive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_crucible.analyse.scores import Flags
from pytest_crucible.records import ArmOutcomes, MetricFacts, Plan, ScoreColumns
from pytest_crucible.records.expected_decisions import applies


def mark_inapplicable(plan: Plan, answers: Sequence[ArmOutcomes], expected: Sequence[Any]) -> tuple[ArmOutcomes, ...]:
    """Return each arm's outcomes, with "does not apply" for every reply without a score to a sample that a metric is not about."""
    conditional = [facts for facts in plan.metrics if facts.applies_to is not None] if expected else []
    for facts in conditional:
        outside = np.array([not applies(facts.applies_to, each) for each in expected], dtype=bool)
        answers = [_mark(arm, facts, outside, plan.draws(number).size) for number, arm in enumerate(answers)]
    return tuple(answers)


def _mark(arm: ArmOutcomes, facts: MetricFacts, outside: Flags, repeats: int) -> ArmOutcomes:
    # A metric that other replies of the arm lack was not among its metrics.
    if facts.name not in arm.scores and not all(arm.failures):
        return arm
    column = arm.scores.get(facts.name, ScoreColumns(positions=[], repeats=[], values=[], is_bool=[]))
    unscored = np.repeat(outside[:, None], repeats, axis=1)
    unscored[column.positions, column.repeats] = False
    positions, of_repeats = (axis.tolist() for axis in np.nonzero(unscored))
    marked = ScoreColumns(
        positions=[*column.positions, *positions],
        repeats=[*column.repeats, *of_repeats],
        values=[*column.values, *[None] * len(positions)],
        is_bool=[*column.is_bool, *[False] * len(positions)],
    )
    return replace(arm, scores={**arm.scores, facts.name: marked})
