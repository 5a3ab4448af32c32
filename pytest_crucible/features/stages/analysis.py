"""Stages of a stored run: the samples that count when a session ends early, and the look at the end of a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import AnalysisInputs
from pytest_crucible.analyse.stopping import cut_to_samples
from pytest_crucible.features.stages.definition import (
    FIRST_STAGE,
    STAGES,
    StageDecision,
    StageProgress,
    stage_alpha,
    stage_length,
)
from pytest_crucible.features.stages.looks import out_of_reach, out_of_reach_after
from pytest_crucible.plan.arms import look_order
from pytest_crucible.records import CUT_SHORT, Plan
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.records.statistics import claims_on_samples
from pytest_crucible.runs.evaluate import analyse_run
from pytest_crucible.runs.plugins import Extensions
from pytest_crucible.runs.run_analysis import complete_samples
from pytest_crucible.store.decisions import add_decision, load_decisions
from pytest_crucible.store.experiments import StoredExperiment
from pytest_crucible.store.runs import RunStore

SUBJECT = "stages"
"""The subject of the decisions in the run store."""


def store_decision(store: RunStore, run: str, decision: StageDecision) -> StageDecision:
    """Store the decision at a stage, before it takes effect; return the one that was stored first."""
    return from_plain(StageDecision, add_decision(store, run, SUBJECT, decision.stage, to_plain(decision)))


def load_decision(store: RunStore, run: str, stage: int) -> StageDecision | None:
    """Return the decision at a stage; None before it is made."""
    body = load_decisions(store, run, SUBJECT).get(stage)
    return None if body is None else from_plain(StageDecision, body)


def load_ending(store: RunStore, run: str, plans: Sequence[Plan]) -> StageDecision | None:
    """Return the decision that ended the session, one without an `end` where none did; None for a run without stages."""
    stages = next((STAGES.of(plan) for plan in plans if STAGES.of(plan)), ())
    if not stages:
        return None
    decisions = [from_plain(StageDecision, body) for body in load_decisions(store, run, SUBJECT).values()]
    return next((decision for decision in decisions if decision.end), StageDecision(stage=len(stages) - 1))


def alpha_of(ending: StageDecision | None, plans: Sequence[Plan], alpha: float) -> float:
    """Return the error rate of all claims at the stage where the session ended; alpha itself without stages."""
    stages = next((STAGES.of(plan) for plan in plans if STAGES.of(plan)), ())
    return alpha if ending is None or not stages else stage_alpha(alpha, len(stages), ending.stage)


def count_claims(plans: Sequence[Plan]) -> int:
    """Return the number of claims that share alpha: with stages all that are planned, also those that bounds decide."""
    if any(STAGES.of(plan) for plan in plans):
        return sum(len(claims_on_samples(plan)) for plan in plans)
    return sum(contrast.shares_alpha for plan in plans for contrast in plan.contrasts)


def cut_at_stage(
    inputs: AnalysisInputs, stored: StoredExperiment, ending: StageDecision, *, alpha: float, strict: bool
) -> AnalysisInputs:
    """Return the inputs of an experiment of a session with stages, cut to the samples that count.

    These are the samples of the stage after which the session ended, or those after which a target could not be met any more.
    Replies to later samples, which were in flight, are left out: fast ones are among them.
    """
    if not STAGES.of(stored.plan):
        return inputs
    complete = complete_samples(stored)
    progress = _progress(inputs, stored, complete, ending, alpha=alpha, strict=strict)
    if not progress.ended:
        return replace(inputs, **_facts(progress))
    counted = complete[: progress.samples]
    cut = cut_to_samples(inputs, counted)
    is_cut_short = any(loss.reason in CUT_SHORT for arm in cut.all_answers for loss in arm.lost)
    return replace(cut, finished=bool(counted) and not is_cut_short, looked_at=counted, **_facts(progress))


def _facts(progress: StageProgress) -> dict[str, Any]:
    """Return what the analysis has to know of a session with stages."""
    return {
        "ended": progress.ended,
        "out_of_reach": progress.out_of_reach,
        "claims_alpha": progress.alpha,
        "of_features": {"stages": progress},
    }


def _progress(
    inputs: AnalysisInputs,
    stored: StoredExperiment,
    complete: Sequence[int],
    ending: StageDecision,
    *,
    alpha: float,
    strict: bool,
) -> StageProgress:
    plan = stored.plan
    order = look_order(stored.all_sample_ids(), stored.groups)
    lengths = tuple(stage_length(order, stored.groups, stage.samples) for stage in STAGES.of(plan))
    progress = StageProgress(
        decision=ending,
        lengths=lengths,
        replies=_replies_by_stage(stored, order, lengths, FIRST_STAGE.of(plan)),
        samples=len(complete),
        alpha=alpha,
    )
    if not ending.end:
        return progress
    because = ending_text(ending, plan)
    if FIRST_STAGE.of(plan) > ending.stage:
        return replace(progress, samples=0, ended=because)
    if ending.end == "out of reach":
        return _progress_within(progress, inputs, complete, plan, strict=strict)
    if len(complete) >= lengths[ending.stage]:
        return replace(progress, samples=lengths[ending.stage], ended=because)
    # A stage that failed, or whose worker died: the experiment was interrupted.
    return progress


def _progress_within(
    progress: StageProgress, inputs: AnalysisInputs, complete: Sequence[int], plan: Plan, *, strict: bool
) -> StageProgress:
    """Return how far an experiment came in a session that a target out of reach has ended within a stage."""
    ending, lengths = progress.decision, progress.lengths
    because = ending_text(ending, plan)
    if ending.nodeid != plan.nodeid:
        # Which samples of the stage others had answered by then is chance: the stage before counts.
        reached = [size for size in lengths[FIRST_STAGE.of(plan) : ending.stage] if size <= len(complete)]
        return replace(progress, samples=max(reached, default=0), ended=because)
    first = out_of_reach_after(inputs, complete, strict=strict) or len(complete)
    texts = tuple(target.text for target in out_of_reach(inputs, complete[:first]))
    return replace(progress, samples=first, ended=because, out_of_reach=texts)


def _replies_by_stage(
    stored: StoredExperiment, order: Sequence[int], lengths: Sequence[int], first: int
) -> tuple[int, ...]:
    answered = Counter(position for arm in stored.arms for position in arm.positions)
    # The first stage of an experiment has the samples of the stages that it skips, too.
    starts = [0 if number <= first else lengths[number - 1] for number in range(len(lengths))]
    return tuple(
        0 if number < first else sum(answered[position] for position in order[start:length])
        for number, (start, length) in enumerate(zip(starts, lengths, strict=True))
    )


def ending_text(ending: StageDecision, plan: Plan) -> str:
    """Return why the session ended, in the words of verdicts and reports."""
    name = STAGES.of(plan)[ending.stage].name
    claim = f"{ending.nodeid.partition('::')[2]}: {ending.subject}"
    return {
        "miss": f"the session ended after stage {name}: {claim} is missed",
        "out of reach": f"the session ended in stage {name}: {claim} could not be met any more",
        "until": f"the session ended after stage {name} (--crucible-until); continue with --crucible-resume",
    }[ending.end or "until"]


def look_after_stage(
    store: RunStore,
    run: str,
    stage: int,
    extensions: Extensions,
    *,
    alpha: float,
    strict: bool,
    expected: Container[str] = (),
) -> StageDecision:
    """Return whether the session goes on after a stage: it ends where a miss is proven. Nothing is stored.

    `alpha` is that of the session, `expected` are the experiments whose misses are expected failures.
    """
    plans = [plan for _, plan, _ in store.experiments(run)]
    here = StageDecision(stage=stage, end="until")
    share = alpha_of(here, plans, alpha)
    by_key, family_size = analyse_run(
        store, run, replace(extensions, sections={}), alpha=share, interrupted=False, strict=strict, at={"stages": here}
    )
    verdicts = gate.decide_verdicts(list(by_key.values()), alpha=share, strict=strict, family_size=family_size)
    staged = {analysis.plan.nodeid: analysis for analysis in by_key.values() if analysis.ended}
    for verdict in verdicts:
        analysis = staged.get(verdict.nodeid)
        if analysis is None or verdict.state != "missed" or verdict.suite_error or verdict.nodeid in expected:
            continue
        # A number of the training was known before the first sample: it does not end the session.
        if any(r.target.text == verdict.subject and r.estimate.is_known for r in analysis.targets):
            continue
        return StageDecision(stage=stage, end="miss", nodeid=verdict.nodeid, subject=verdict.subject)
    return StageDecision(stage=stage)
