"""The look at the end of a stage: whether the stored replies prove a miss."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from pytest_crucible import gate
from pytest_crucible.features.stages.analysis import alpha_of
from pytest_crucible.features.stages.records import StageDecision
from pytest_crucible.runs.evaluate import analyse_run
from pytest_crucible.runs.plugins import Extensions
from pytest_crucible.store.runs import RunStore


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
        store,
        run,
        replace(extensions, sections={}),
        alpha=share,
        interrupted=False,
        strict=strict,
        at={"stages": here},
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
