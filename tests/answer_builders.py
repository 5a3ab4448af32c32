"""Builds answers of arms, and the inputs of an analysis and of sections."""

from __future__ import annotations

from plan_builders import plan_of

from pytest_crucible.analyse.analysis import AnalysisInputs, score_table
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import ArmOutcomes, Lost, Sample, ScoreColumns, Unit
from pytest_crucible.sections.inputs import NoStoredDetails, SectionInputs, StoredDetails, section_inputs

NAMES = ("v2", "v1", "v0", "old")


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
    *arms: ArmOutcomes, targets=(), contrasts=(), metrics=(), groups=None, n=None, kinds=None, selected=None
) -> AnalysisInputs:  # fmt: skip
    n = n or max(len(arm.positions) + sum(gone.metric is None for gone in arm.lost) for arm in arms)
    plan = plan_of(
        *NAMES[: len(arms)], n=n, selected=selected or n, metrics=tuple(metrics), targets=tuple(map(parse_target, targets)),
        contrasts=tuple(contrasts),
    )  # fmt: skip
    return AnalysisInputs(plan=plan, answers=arms, groups=groups or [None] * n, finished=True, known_kinds=kinds or {})


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
