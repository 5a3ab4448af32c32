"""Experiments that are larger than memory: read in batches from the run store, analysed, and shown by their counts."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_crucible.analyse.adjusted_analyses import hold_for_all_members
from pytest_crucible.analyse.analysis import AnalysisInputs, failure_text
from pytest_crucible.analyse.scores import mark_outside
from pytest_crucible.features.row import Placed
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Analysis, ArmOutcomes, Lost, MetricFacts, ScoreColumns, Unit
from pytest_crucible.records.datasets import applies
from pytest_crucible.sections import Section
from pytest_crucible.sections.inputs import large_inputs
from pytest_crucible.sections.run import compute_sections
from pytest_crucible.store.arm_outlines import ArmOutline
from pytest_crucible.store.experiments import StoredExperiment
from pytest_crucible.store.sample_batches import Batches, SampleBatch, StoredBatches

if TYPE_CHECKING:
    from pytest_crucible.analyse.streamed import StreamedInputs


BATCH = 2**18
"""Replies of a batch in all arms: its arrays take some MiB, and a call of numpy is long beside its own cost."""


@dataclass(frozen=True, slots=True)
class LargeExperiment:
    """A stored experiment that is larger than memory."""

    stored: StoredExperiment
    """Without its rows."""
    finished: bool
    most_in_memory: int
    plans_next_run: bool = True
    batches: Batches | None = None
    """Its outcomes, where the store has no rows of it."""


def analyse_large(
    sections: Mapping[str, Section | Placed], large: LargeExperiment, *, alpha: float, family_size: int
) -> Analysis:
    """Return the analysis of an experiment with the sections that its counts allow."""
    # Its statistics are loaded for a run that needs them.
    from pytest_crucible.analyse.streamed import analyse_streamed

    stored, plan = large.stored, large.stored.plan
    batches = large.batches or StoredBatches(stored.store, stored.key, plan)
    outcomes = compute_sections(
        sections,
        large_inputs(
            plan,
            tuple(map(batches.count_outcomes, range(len(plan.arms)))),
            stored,
            alpha=alpha,
            finished=large.finished,
            most_in_memory=large.most_in_memory,
        ),
    )
    inputs = _streamed_inputs(large, batches)
    analysis = analyse_streamed(inputs, alpha=alpha / plan.chosen_among, family_size=family_size)
    return replace(hold_for_all_members(analysis), sections=outcomes)


def _streamed_inputs(large: LargeExperiment, batches: Batches) -> StreamedInputs:
    from pytest_crucible.analyse.streamed import StreamedInputs

    stored, plan = large.stored, large.stored.plan
    is_cut_short = any(outline.is_cut_short for outline in batches.outlines.values())
    seed = stored.seed()
    outline = AnalysisInputs(
        plan=plan,
        answers=_of_twin(batches, 0),
        groups=(),
        finished=large.finished and not is_cut_short,
        known_kinds=stored.known_kinds,
        variants={variant.name: _of_twin(batches, twin) for twin, variant in enumerate(plan.variants, start=1)},
        seed=seed,
        plans_next_run=large.plans_next_run,
    )
    conditional = [facts for facts in plan.metrics if facts.applies_to is not None]
    size = max(1, min(BATCH, large.most_in_memory) // sum(plan.draws(number).size for number in range(len(plan.arms))))

    def read() -> Generator[AnalysisInputs, None, None]:
        for batch in batches.read(size, with_expected=bool(conditional)):
            yield _batch_inputs(outline, batch, batches.outlines, conditional)

    return StreamedInputs(
        outline=outline, read=read, group_codes=batches.group_codes(), failed_metrics=_failed_metrics(batches, outline)
    )


def _of_twin(batches: Batches, twin: int) -> tuple[ArmOutcomes, ...]:
    arms = range(len([number for of_twin, number in batches.outlines if of_twin == twin]))
    return tuple(_outline_outcomes(batches.outlines[twin, number]) for number in arms)


def _outline_outcomes(arm: ArmOutline) -> ArmOutcomes:
    """Return outcomes with one value of each metric, from which its kind follows as from all of them."""
    units = [0] if arm.has_replies else []
    return ArmOutcomes(
        positions=units,
        repeats=units,
        failures=[None for _ in units],
        skipped=[False for _ in units],
        scores={
            name: ScoreColumns(
                positions=[0],
                repeats=[0],
                values=[1.0 if name in arm.scored else None],
                is_bool=[name not in arm.numbers],
            )
            for name in arm.metrics
        },
        labels=arm.labels,
        lost=[Lost(Unit(0, 0, 0, 0), None, reason) for reason in sorted(arm.lost_reasons)],
    )


def _batch_inputs(
    outline: AnalysisInputs,
    batch: SampleBatch,
    outlines: Mapping[tuple[int, int], ArmOutline],
    conditional: Sequence[MetricFacts],
) -> AnalysisInputs:
    def mark(twin: int, arms: tuple[ArmOutcomes, ...]) -> tuple[ArmOutcomes, ...]:
        for facts in conditional:
            outside = np.array([not applies(facts.applies_to, each) for each in batch.expected], dtype=bool)
            arms = tuple(
                mark_outside(arm, facts, outside, outline.plan.draws(number).size)
                # A metric that all answers of the arm lack was not among its metrics.
                if facts.name in arm.scores or not outlines[twin, number].has_answers
                else arm
                for number, arm in enumerate(arms)
            )
        return arms

    return replace(
        outline,
        answers=mark(0, batch.answers),
        variants={name: mark(twin, arms) for twin, (name, arms) in enumerate(batch.variants.items(), start=1)},
        groups=batch.groups,
        expected=batch.expected,
        sample_ids=batch.sample_ids,
    )


def _failed_metrics(batches: Batches, outline: AnalysisInputs) -> dict[str, str]:
    """Return the errors of metrics that failed on every sample, and of those that failed on every twin of a variant."""
    names = [variant.name for variant in outline.plan.variants]
    of_terms = {
        term.facts.name: _failure(batches, term.metric, 1 + names.index(term.variants[0]))
        for term in outline.plan.variant_terms
    }
    candidate = batches.outlines[0, 0]
    names_of_metrics = {facts.name for facts in outline.plan.metrics} | set(candidate.metrics)
    of_metrics = {name: _failure(batches, name, 0) for name in sorted(names_of_metrics)}
    return {name: error for name, error in (of_terms | of_metrics).items() if error}


def _failure(batches: Batches, metric: str, twin: int) -> str:
    outline = batches.outlines[twin, 0]
    if metric in outline.scored | outline.labels or "scorer" not in outline.lost_reasons:
        return ""
    samples, detail = batches.first_loss(0, metric, twin)
    return failure_text(metric, samples, detail) if samples else ""
