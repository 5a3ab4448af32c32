"""Sessions with stages whose truth is known: ten experiments from answers through the looks to the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from session_evals import ALPHA, KINDS, answers, drawn, mean_score, plan

from pytest_crucible.analyse.analysis import AnalysisInputs, analyse, score_table
from pytest_crucible.analyse.stopping import in_order, keep_samples
from pytest_crucible.features.stages.definition import STAGES as PLANNED_STAGES
from pytest_crucible.features.stages.definition import (
    StageDecision,
    StageProgress,
    parse_stages,
    stage_alpha,
    stage_length,
)
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.plan.arms import look_order
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Plan, Verdict
from pytest_crucible.records.statistics import claims_on_samples

STAGES = parse_stages("smoke: 20, dev: 80, full")


class Staged(NamedTuple):
    """A session: its verdicts, and the stage after which it ended."""

    verdicts: tuple[Verdict, ...]
    stage: int


def staged_session(rng: np.random.Generator, *, drop: float = 0.0, lost: float = 0.0, targets: bool = False) -> Staged:
    """Ten experiments with one comparison each, and with a target at the true mean that must be proven."""
    runs = [_draw(rng, number, kind, drop, lost, targets) for number, kind in enumerate(KINDS)]
    size = sum(len(claims_on_samples(inputs.plan)) for inputs, _ in runs)
    for number in range(len(STAGES)):
        alpha, is_last = stage_alpha(ALPHA, len(STAGES), number), number == len(STAGES) - 1
        analyses = [analyse_stage(inputs, order, number, alpha, size) for inputs, order in runs]
        adjusted = adjust_p_values(analyses, family_size=size)
        verdicts = decide_verdicts(adjusted, alpha=alpha, strict=True, family_size=size)
        if is_last or any(verdict.state == "missed" for verdict in verdicts):
            break
    return Staged(verdicts, number)


def _draw(
    rng: np.random.Generator, number: int, kind: str, drop: float, lost: float, targets: bool
) -> tuple[AnalysisInputs, Sequence[int]]:
    n = int(rng.integers(100, 301))
    *arms, groups = drawn(rng, kind, n, 0.0 if number else drop)
    bound = parse_target(f"score >= {TRUE_MEANS[kind]!r}", decide="bound")
    look_plan: Plan = PLANNED_STAGES.on(replace(plan(number, kind, n), targets=(bound,) if targets else ()), STAGES)
    inputs = AnalysisInputs(
        plan=look_plan,
        answers=tuple(answers(values, rng.random(n) < lost, bits=kind != "shares") for values in arms),
        groups=groups,
        finished=True,
        known_kinds={},
    )
    return inputs, look_order([str(k) for k in rng.integers(2**60, size=n)], groups)


def analyse_stage(inputs: AnalysisInputs, order: Sequence[int], number: int, alpha: float, size: int):
    """Return the analysis of an experiment at the end of a stage."""
    n = len(order)
    kept_order = order[: stage_length(order, inputs.groups, STAGES[number].samples)]
    is_last = number == len(STAGES) - 1
    progress = StageProgress(
        decision=StageDecision(stage=number, end="" if is_last else "miss"),
        lengths=(), replies=(), samples=len(kept_order), alpha=alpha, ended="" if is_last else "ended",
    )  # fmt: skip
    cut = replace(
        inputs,
        answers=tuple(keep_samples(arm, kept_order, samples=n, repeats=1) for arm in inputs.answers),
        ended=progress.ended,
        claims_alpha=progress.alpha,
        of_features={"stages": progress},
    )
    return analyse(cut, in_order(score_table(cut), kept_order, None), alpha=alpha, family_size=size)


TRUE_MEANS = {kind: mean_score(kind) for kind in dict.fromkeys(KINDS)}
