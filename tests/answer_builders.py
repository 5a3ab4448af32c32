"""Builds answers of arms, and the inputs of an analysis and of sections."""

from __future__ import annotations

import math

import numpy as np
from plan_builders import plan_of

from pytest_crucible.analyse.analysis import AnalysisInputs, score_table
from pytest_crucible.analyse.scores import Scores, scores_with_units
from pytest_crucible.analyse.statistics import ScoredMetric
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import ArmOutcomes, Draws, Lost, MetricFacts, Sample, ScoreColumns, Unit
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs, StoredDetails, section_inputs

NAMES = ("v2", "v1", "v0", "old")
LOST, SKIP, UNSCORED = "lost", "skip", "unscored"


def arm(labels: tuple[str, ...] = (), failures: dict[int, str] | None = None, **metrics) -> ArmOutcomes:
    """Values by sample: a number, a bool, None (does not apply) or "lost"."""
    n = max((len(values) for values in metrics.values()), default=0)
    gone = [k for k in range(n) if metrics and all(values[k] == "lost" for values in metrics.values())]
    replied = [k for k in range(n) if k not in gone]
    scores, lost = {}, [Lost(Unit(k, 0, 0, 0), None, "error") for k in gone]
    for name, values in metrics.items():
        kept_positions = [k for k, value in enumerate(values) if value != "lost" and k not in (failures or {})]
        lost += [
            Lost(Unit(k, 0, 0, 0), name, "scorer")
            for k, value in enumerate(values)
            if value == "lost" and k not in gone
        ]
        scores[name] = ScoreColumns(
            positions=kept_positions,
            repeats=[0] * len(kept_positions),
            values=[None if values[k] is None else float(values[k]) for k in kept_positions],
            is_bool=[isinstance(values[k], bool) for k in kept_positions],
        )
    return ArmOutcomes(
        positions=replied,
        repeats=[0] * len(replied),
        failures=[(failures or {}).get(k) for k in replied],
        skipped=[False] * len(replied),
        scores=scores,
        lost=lost,
        labels=frozenset(labels),
    )


def analysis_inputs(
    *arms: ArmOutcomes, targets=(), contrasts=(), metrics=(), groups=None, n=None, kinds=None, selected=None, **plan_fields
) -> AnalysisInputs:  # fmt: skip
    n = n or max(len(arm.positions) + sum(gone.metric is None for gone in arm.lost) for arm in arms)
    plan = plan_of(
        *NAMES[: len(arms)], n=n, selected=selected or n, metrics=tuple(metrics), targets=tuple(map(parse_target, targets)),
        contrasts=tuple(contrasts), **plan_fields,
    )  # fmt: skip
    return AnalysisInputs(plan=plan, answers=arms, groups=groups or [None] * n, finished=True, known_kinds=kinds or {})


def reply_rows(rows, metric: str = "m") -> ArmOutcomes:
    """Outcomes of an arm by sample and repeat: numbers, bools, None (does not apply), LOST, SKIP or UNSCORED."""
    places = {(k, repeat): value for k, row in enumerate(rows) for repeat, value in enumerate(row)}
    there = {place: value for place, value in places.items() if value != LOST}
    scored = {place: value for place, value in there.items() if value not in (SKIP, UNSCORED)}
    column = ScoreColumns(
        positions=[k for k, _ in scored],
        repeats=[repeat for _, repeat in scored],
        values=[None if value is None else float(value) for value in scored.values()],
        is_bool=[isinstance(value, bool) for value in scored.values()],
    )
    return ArmOutcomes(
        positions=[k for k, _ in there],
        repeats=[repeat for _, repeat in there],
        failures=[None] * len(there),
        skipped=[value == SKIP for value in there.values()],
        scores={metric: column},
        lost=[Lost(Unit(k, 0, 0, repeat), None, "error") for k, repeat in places if (k, repeat) not in there],
    )


def score_rows(facts: MetricFacts, rows) -> list[ScoredMetric]:
    """A metric with its replies, as in `reply_rows`; a sample of one reply needs no row."""
    rows = [row if isinstance(row, list | np.ndarray) else [row] for row in rows]
    draws = Draws(repeats=len(rows[0]))
    return [ScoredMetric(facts, scores_with_units(facts, reply_rows(rows), samples=len(rows), draws=draws))]


def score_column(values, facts: MetricFacts, inapplicable=()) -> Scores:
    """One value a sample; None and NaN are lost. "n/a", or a place of `inapplicable`, does not apply."""
    absent = np.array([value == "n/a" for value in values], dtype=bool)
    absent[list(inapplicable)] = True
    array = np.array([math.nan if value in (None, "n/a") else value for value in values], dtype=float)
    lost = np.isnan(array) & ~absent
    ends = (np.where(lost, end, array) for end in (facts.low, facts.high))
    return Scores(array, *ends, lost, absent & np.isnan(array))


class Samples(NoStoredDetails):
    """Samples whose ids are their positions, and replies that say theirs."""

    def samples(self, positions):
        return {
            position: Sample(id=str(position), input=f"input {position}", expected=position) for position in positions
        }

    def replies(self, arm, positions):
        return {position: f"reply {position}" for position in positions}


def inputs_of(*arms: ArmOutcomes, stored: StoredDetails | None = None, **facts) -> SectionInputs:
    """The inputs of a section."""
    inputs = analysis_inputs(*arms, **facts)
    return section_inputs(inputs, score_table(inputs), stored or Samples(), alpha=0.05)
