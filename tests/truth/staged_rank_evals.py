"""Ranks of arms in sessions with stages, which end after a stage at a proven miss, or within one when a target is out of reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from session_evals import ALPHA, answers, plan
from stage_evals import STAGES, analyse_stage
from sweep_evals import SweepEval, equal, lift, spread

from pytest_crucible.analyse.analysis import AnalysisInputs, score_table
from pytest_crucible.analyse.many_arms import ManyArms, compare_many_arms
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.analyse.stopping import in_order, keep_samples
from pytest_crucible.features.stages.definition import STAGES as PLANNED_STAGES
from pytest_crucible.features.stages.definition import stage_alpha, stage_length
from pytest_crucible.features.stages.looks import out_of_reach_after
from pytest_crucible.gate import adjust_p_values, decide_verdicts
from pytest_crucible.plan.arms import look_order
from pytest_crucible.plan.targets import parse_target
from pytest_crucible.records import Arm, Contrast


class StagedArms(NamedTuple):
    """A candidate (the first arm) and baselines, and the candidate's target, if any."""

    sweep: SweepEval
    target: float | None = None


STAGED = {
    "3 tied": StagedArms(SweepEval(200, equal(3))),
    "8 tied": StagedArms(SweepEval(200, equal(8))),
    "8 tied, passages": StagedArms(SweepEval(400, equal(8), clustered=True)),
    "8, the candidate 20 points worse": StagedArms(SweepEval(200, lift(equal(8, 0.7), -0.2))),
    "8, the candidate 40 points worse": StagedArms(SweepEval(200, lift(equal(8, 0.7), -0.4))),
    "8 apart": StagedArms(SweepEval(200, spread(8, 0.3, 0.9))),
    "3 tied, a target 2 points above": StagedArms(SweepEval(200, equal(3)), 0.62),
    "8 tied, a target 10 points above": StagedArms(SweepEval(200, equal(8)), 0.7),
    "8 tied, a target 30 points above": StagedArms(SweepEval(200, equal(8)), 0.9),
}


class RightSessions(NamedTuple):
    """Sessions in which each statement is right, and those that ended before their last sample."""

    ranks: int
    """All true ranks are possible ones."""
    best: int
    """Every truly best arm is among those not proven worse than the best."""
    differences: int
    """All true differences from the arm with the highest mean are inside their intervals."""
    ended: int


def count_right_sessions(arms: StagedArms, runs: int, seed: int) -> RightSessions:
    """Return in how many of the sessions each statement is right."""
    rng = np.random.default_rng([seed, 1])
    return RightSessions(
        *np.sum([_check(arms, values, rng) for values in arms.sweep.draw(runs, seed)], axis=0).tolist()
    )


def _check(arms: StagedArms, values: np.ndarray, rng: np.random.Generator) -> tuple[bool, bool, bool, bool]:
    means = arms.sweep.truths
    truths = 1 + (means[None, :] > means[:, None]).sum(axis=1)
    table, samples = _end_session(arms, values, rng)
    best = [arm.arm for arm in table.arms].index(table.best)
    return (
        all(arm.ranks[0] <= true <= arm.ranks[1] for arm, true in zip(table.arms, truths, strict=True)),
        {f"v{k}" for k in np.flatnonzero(truths == 1)} <= set(table.not_proven_worse),
        all(
            arm.difference_interval is None
            or arm.difference_interval.low - 1e-9 <= means[k] - means[best] <= arm.difference_interval.high + 1e-9
            for k, arm in enumerate(table.arms)
        ),
        samples < arms.sweep.n,
    )


def _end_session(arms: StagedArms, values: np.ndarray, rng: np.random.Generator) -> tuple[ManyArms, int]:
    """Return the ranks where the session ends, and after how many samples that is."""
    inputs = _inputs(arms, values)
    order = look_order([str(k) for k in rng.integers(2**60, size=len(values))], inputs.groups)
    for number in range(len(STAGES)):
        alpha = stage_alpha(ALPHA, len(STAGES), number)
        stage_order = order[: stage_length(order, inputs.groups, STAGES[number].samples)]
        end = out_of_reach_after(inputs, stage_order)
        if end is not None or _is_missed(inputs, order, number, alpha):
            stage_order = stage_order[:end]
            break
    return _rank(inputs, stage_order, alpha), len(stage_order)


def _inputs(arms: StagedArms, values: np.ndarray) -> AnalysisInputs:
    n, members = values.shape
    names = [f"v{k}" for k in range(members)]
    records = [Arm(name=name, role="baseline", adapter=name, identity=name) for name in names]
    records[0] = replace(records[0], role="candidate")
    target = () if arms.target is None else (parse_target(f"score >= {arms.target!r}"),)
    contrasts = tuple(Contrast(metric="score", baseline=name) for name in names[1:])
    whole = replace(plan(0, "bits", n), arms=tuple(records), targets=target, contrasts=contrasts)
    look_plan = PLANNED_STAGES.on(whole, STAGES)
    clusters = arms.sweep.clusters
    groups = [None] * n if clusters is None else [f"passage {label}" for label in clusters]
    none_lost = np.zeros(n, dtype=bool)
    columns = tuple(answers(column, none_lost, bits=True) for column in values.T)
    return AnalysisInputs(plan=look_plan, answers=columns, groups=groups, finished=True, known_kinds={})


def _is_missed(inputs: AnalysisInputs, order: Sequence[int], number: int, alpha: float) -> bool:
    """Return whether a miss is proven at the end of a stage; that of the last one ends nothing."""
    if number == len(STAGES) - 1:
        return False
    size = len(inputs.plan.contrasts) + len(inputs.plan.targets)
    adjusted = adjust_p_values([analyse_stage(inputs, order, number, alpha, size)], family_size=size)
    verdicts = decide_verdicts(adjusted, alpha=alpha, strict=False, family_size=size)
    return any(verdict.state == "missed" and verdict.proven for verdict in verdicts)


def _rank(inputs: AnalysisInputs, stage_order: Sequence[int], alpha: float) -> ManyArms:
    n, names = len(inputs.groups), [arm.name for arm in inputs.plan.arms]
    cut = replace(inputs, answers=tuple(keep_samples(arm, stage_order, samples=n, repeats=1) for arm in inputs.answers))
    table = in_order(score_table(cut), stage_order, None)
    arms = list(zip(names, table.scores["score"], strict=True))
    attributes = SampleAttributes(table.attributes.clusters)
    return compare_many_arms(table.facts["score"], arms, attributes, alpha=ALPHA, rank_alpha=alpha)
