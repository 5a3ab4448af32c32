"""Scores of the versions of a sample, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.features.explanation.records import VARIANT, Explanation, subject_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import CUT_SHORT, ArmOutcomes, MetricFacts
from pytest_crucible.records.outcomes import skip_units
from pytest_crucible.records.serialize import from_plain
from pytest_crucible.stats.attribution.deletion import (
    DeletionCurve,
    DeletionPlan,
    judge_deletion,
    plan_deletion,
)
from pytest_crucible.stats.attribution.interactions import plan_interactions
from pytest_crucible.stats.attribution.sets import SetPlan, extend_plan
from pytest_crucible.stats.attribution.values import Attribution, attribute, attribute_difference, shapley_values
from pytest_crucible.store.experiments import StoredExperiment

Table = npt.NDArray[np.float64]
"""Sets x draws; NaN for what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScores:
    """The outcomes of one arm, on the samples and on their versions."""

    whole: ArmOutcomes
    versions: ArmOutcomes

    @property
    def parts(self) -> tuple[tuple[int, ArmOutcomes], ...]:
        """The twins with their outcomes."""
        return (0, self.whole), (1, self.versions)

    def table(self, explanation: Explanation, position: int, facts: MetricFacts) -> Table:
        """Return a metric's scores of the versions of one sample; a failed reply has the worst value."""
        table = np.full((len(explanation.sets.masks), explanation.sets.repeats), np.nan)
        worst = facts.low if facts.direction == "higher" else facts.high
        for twin, answers in self.parts:
            rows = zip(answers.positions, answers.repeats, answers.failures, strict=True)
            if math.isfinite(worst):
                for repeat in (row[1] for row in rows if row[0] == position and row[2] is not None):
                    _set(table, explanation.set_at(twin, repeat), worst)
            column = answers.scores.get(facts.name)
            if column is not None:
                for at, repeat, value in zip(column.positions, column.repeats, column.values, strict=True):
                    if at == position and value is not None:
                        _set(table, explanation.set_at(twin, repeat), value)
        return table

    def count_lost(self, position: int, metric: str) -> int:
        """Return how many requests about a sample have no score for a reason other than a budget or a deadline."""
        losses = (loss for _, answers in self.parts for loss in answers.lost if loss.unit.position == position)
        return sum(loss.metric in (None, metric) and loss.reason not in CUT_SHORT for loss in losses)

    def count_inapplicable(self, position: int, metric: str, draws: int) -> int:
        """Return how many replies about a sample the metric, or the test itself, does not apply to."""
        count = 0
        for twin, answers in self.parts:
            rows = [*zip(answers.positions, answers.repeats, answers.skipped, strict=True)]
            column = answers.scores.get(metric)
            if column is not None:
                is_none = [value is None for value in column.values]
                rows += zip(column.positions, column.repeats, is_none, strict=True)
            # Draws of the whole prompt beyond its own were never planned (`skip_unrequested`).
            count += sum(empty and at == position and (twin or repeat < draws) for at, repeat, empty in rows)
        return count


def _set(table: Table, place: tuple[int, int], value: float) -> None:
    # A run that is resumed may have more sets than were planned.
    if place[0] < table.shape[0] and place[1] < table.shape[1]:
        table[place] = value


def arm_scores(answers: Sequence[ArmOutcomes], variants: Mapping[str, Sequence[ArmOutcomes]]) -> tuple[ArmScores, ...]:
    """Return the outcomes of each arm."""
    return tuple(
        ArmScores(whole=whole, versions=versions) for whole, versions in zip(answers, variants[VARIANT], strict=True)
    )


def numeric_metrics(arms: Sequence[ArmScores], facts: Mapping[str, MetricFacts]) -> list[MetricFacts]:
    """Return the facts of the metrics with numbers that some reply has."""
    scored = {name for arm in arms for _, answers in arm.parts for name in answers.scores}
    return [entry for name, entry in facts.items() if name in scored and entry.kind != "text" and not entry.is_part]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetricResult:
    """The attributions of one metric of one sample."""

    facts: MetricFacts
    tables: tuple[Table, ...]
    """By arm."""
    arms: tuple[Attribution, ...]
    """The candidate's first."""
    differences: tuple[Attribution, ...]
    """Candidate minus each baseline."""
    curves: tuple[DeletionCurve, ...]
    """By arm."""
    lost: tuple[int, ...]
    """By arm: requests that were sent, or refused, without a score."""
    inapplicable: tuple[int, ...]
    """By arm: replies to which the metric does not apply."""


def plan_further(explanation: Explanation, tables: Sequence[Table]) -> tuple[SetPlan, list[DeletionPlan]]:
    """Return the planned sets with those that interactions and deletion curves need, as far as calls allow; and each table's curve.

    `tables` may have later sets.
    """
    base = replace(explanation.sets, masks=explanation.sets.masks[: explanation.planned])
    sets, deletions = base, list[DeletionPlan]()
    for table in tables:
        scores = table[: explanation.planned]
        # From the sets so far: those of the metrics before are neither requested nor counted again.
        sets = extend_plan(sets, plan_interactions(sets, shapley_values(base, scores), explanation.calls))
        deletions.append(plan_deletion(sets, scores, explanation.calls))
        sets = extend_plan(sets, deletions[-1].masks)
    return sets, deletions


def explain_metrics(
    explanation: Explanation, position: int, arms: Sequence[ArmScores], metrics: Sequence[MetricFacts]
) -> list[MetricResult]:
    """Return the result of each metric, all of them from the same requests."""
    tables = [[arm.table(explanation, position, facts) for arm in arms] for facts in metrics]
    _, planned = plan_further(explanation, [table for of_arms in tables for table in of_arms])
    sets, deletions = explanation.sets, iter(planned)
    return [
        MetricResult(
            facts=facts,
            tables=tuple(of_arms),
            arms=tuple(attribute(sets, table) for table in of_arms),
            differences=tuple(attribute_difference(sets, of_arms[0], table) for table in of_arms[1:]),
            curves=tuple(judge_deletion(sets, next(deletions), table) for table in of_arms),
            lost=tuple(arm.count_lost(position, facts.name) for arm in arms),
            inapplicable=tuple(arm.count_inapplicable(position, facts.name, sets.repeats) for arm in arms),
        )
        for facts, of_arms in zip(metrics, tables, strict=True)
    ]


def skip_unrequested(inputs: AnalysisInputs, stored: StoredExperiment) -> AnalysisInputs:
    """Return the inputs in which the whole prompt has its own draws alone, of the repeats that all versions together take."""
    plain = stored.decisions(subject_of(stored.plan.nodeid))
    draws = {position: from_plain(Explanation, entry).sets.repeats for position, entry in plain.items()}
    units = [(position, repeat) for position, first in draws.items() for repeat in range(first, stored.plan.repeats)]
    return replace(inputs, answers=tuple(skip_units(answers, units) for answers in inputs.answers))


def plain_number(value: Any) -> float | None:
    """Return a number for JSON; None for NaN."""
    return None if value is None or not math.isfinite(value) else float(value)
