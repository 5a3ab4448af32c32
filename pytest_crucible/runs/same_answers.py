"""Compares the answers to a sample and to its twin: the metric `same_answer`, which needs no gold."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.metrics.normalisers import NORMALISERS
from pytest_crucible.records import ArmOutcomes, ScoreColumns
from pytest_crucible.records.reasoning import answer_text
from pytest_crucible.records.robustness import SAME_ANSWER
from pytest_crucible.store.experiments import StoredExperiment

Unit = tuple[int, int]
"""Position and repeat."""


def add_same_answers(inputs: AnalysisInputs, stored: StoredExperiment) -> AnalysisInputs:
    """Return the inputs with the scores of `same_answer` on each variant, if a target or comparison names it.

    Texts are read for it, which no other analysis needs. A unit is scored where both replies have been given; one whose twin
    failed has the worst value, as for any metric. Two replies without an answer are the same.
    """
    if all(term.metric != SAME_ANSWER for term in inputs.plan.variant_terms):
        return inputs
    robustness = inputs.plan.robustness
    normalise = NORMALISERS[robustness.normalise if robustness else "text"]

    def answers(arm: int, twin: int) -> dict[Unit, str | None]:
        return {unit: normalise(answer_text(text)) for unit, text in stored.reply_texts(arm, twin).items()}

    originals = [answers(number, 0) for number in range(len(inputs.plan.arms))]
    return dataclasses.replace(
        inputs,
        variants={
            variant.name: tuple(
                _with_scores(arm, originals[number], answers(number, twin))
                for number, arm in enumerate(inputs.variants[variant.name])
            )
            for twin, variant in enumerate(inputs.plan.variants, start=1)
        },
    )


def _with_scores(
    arm: ArmOutcomes, originals: Mapping[Unit, str | None], twins: Mapping[Unit, str | None]
) -> ArmOutcomes:
    """Return the arm's outcomes on a variant, scored; without a reply to the sample itself, the metric does not apply."""
    units = [unit for unit in zip(arm.positions, arm.repeats, strict=True) if unit in twins]
    values = [float(originals[unit] == twins[unit]) if unit in originals else None for unit in units]
    column = ScoreColumns(
        positions=[position for position, _ in units],
        repeats=[repeat for _, repeat in units],
        values=values,
        is_bool=[value is not None for value in values],
    )
    return dataclasses.replace(arm, scores={**arm.scores, SAME_ANSWER: column})
