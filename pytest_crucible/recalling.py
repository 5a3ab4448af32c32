"""A stored run, as its session concluded it: analysed anew from the stored answers, with the verdicts that were given."""

from __future__ import annotations

import dataclasses

from pytest_crucible import gate
from pytest_crucible.conclusion import analysed_experiments, concluded_run
from pytest_crucible.records import Run
from pytest_crucible.store.runs import RunStore


def recalled(store: RunStore, run: str) -> Run:
    """The run of that id. Nothing is written; a run that was killed is judged by what it left behind."""
    facts = store.run(run)
    alpha, interrupted = facts["alpha"], facts["status"] != "finished"
    analysed, questions = analysed_experiments(store, run, alpha=alpha, interrupted=interrupted)
    analyses = list(analysed.values())
    given = {
        (analysis.plan.nodeid, subject): ruled
        for key, analysis in analysed.items()
        for subject, ruled in store.verdicts(key).items()
    }  # by then a hook may have waived it, or --crucible-strict asked for proof
    judged = gate.judge(analyses, alpha=alpha, strict=False, questions=questions)
    verdicts = tuple(dataclasses.replace(one, **given.get((one.nodeid, one.subject), {})) for one in judged)
    whole = concluded_run(store, run, facts["finished"] or "", questions, analyses, verdicts)
    return dataclasses.replace(whole, exit_status=facts["exit_status"] or 0)
