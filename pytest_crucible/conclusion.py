"""The end of a session: stored answers to analyses, analyses to verdicts, verdicts to test reports."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import Given, analyse
from pytest_crucible.records import Analysis, Plan, Run, Verdict, Worst
from pytest_crucible.store.answers import group_names, load_answers, reply_texts, reused_runs, sample_ids
from pytest_crucible.store.runs import RunStore


def conclude(
    store: RunStore,
    run: str,
    *,
    alpha: float,
    strict: bool,
    interrupted: bool,
    amend: Callable[[Verdict], Verdict | None],
) -> Run:
    """Analyse and judge everything that a run has asked, jointly, and store the verdicts."""
    entered = store.experiments(run)
    questions = sum(len(plan.contrasts) for _, plan, _ in entered)
    begun = [(key, plan, finished) for key, plan, finished in entered if store.has_arms(key)]
    analyses = [
        _analysis(store, key, plan, finished or (plan.by_item and not interrupted), alpha, questions)
        for key, plan, finished in begun
    ]
    adjusted = gate.adjust(analyses, questions=questions)
    verdicts = gate.judge(adjusted, alpha=alpha, strict=strict, questions=questions)
    amended = tuple(amend(verdict) or verdict for verdict in verdicts)
    for (key, plan, _), analysis in zip(begun, adjusted, strict=True):
        store.set_kinds(key, analysis.kinds)
        store.add_verdicts(key, [one for one in amended if one.nodeid == plan.nodeid])
    finished_at = now()
    store.end_run(run, finished=finished_at, status="interrupted" if interrupted else "finished")
    return _run(store, run, finished_at, adjusted, amended)


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _analysis(store: RunStore, key: int, plan: Plan, finished: bool, alpha: float, questions: int) -> Analysis:
    given = Given(
        plan=plan,
        answers=tuple(load_answers(store, key, number) for number in range(len(plan.arms))),
        groups=group_names(store, plan.dataset_sha256),
        finished=finished,
        known_kinds=store.known_kinds(plan.nodeid, key),
    )
    analysis, worst = analyse(given, alpha=alpha, questions=questions)
    return dataclasses.replace(analysis, reused=reused_runs(store, key), worst=_told(store, key, plan, worst))


def _told(store: RunStore, key: int, plan: Plan, worst: Mapping[int, Worst]) -> tuple[Worst, ...]:
    """The worst samples with their ids and with what the candidate said."""
    if not worst:
        return ()
    names = sample_ids(store, plan.dataset_sha256, list(worst))
    replies = reply_texts(store, key, 0, list(worst))
    return tuple(
        dataclasses.replace(one, sample=names[position], reply=replies.get(position, ""))
        for position, one in worst.items()
    )


def _run(
    store: RunStore, run: str, finished: str, analyses: Sequence[Analysis], verdicts: tuple[Verdict, ...]
) -> Run:
    facts = store.run(run)
    return Run(
        id=run,
        started=facts["started"],
        finished=finished,
        seed=facts["seed"],
        git=facts["git"],
        environment=facts["environment"],
        alpha=facts["alpha"],
        correction=facts["correction"],
        experiments=tuple(analyses),
        verdicts=verdicts,
        exit_status=0,
        store=store.location,
    )


# -- reports ------------------------------------------------------------------------------------------------------


def verdict_reports(verdict: Verdict, plan: Plan, *, undecided_fails: bool) -> list[pytest.TestReport]:
    """Setup, call and teardown reports, so that everything that listens to tests hears a verdict."""
    return [_report(verdict, plan, when, undecided_fails) for when in ("setup", "call", "teardown")]


def _report(verdict: Verdict, plan: Plan, when: Any, undecided_fails: bool) -> pytest.TestReport:
    name = f"{plan.nodeid.partition('::')[2]}::{verdict.subject}"
    outcome, longrepr = _outcome(verdict, plan, undecided_fails) if when == "call" else ("passed", None)
    return pytest.TestReport(
        nodeid=f"{plan.nodeid}::{verdict.subject}",
        location=(plan.path, plan.line, name),
        keywords={"crucible": 1},
        outcome=outcome,
        longrepr=longrepr,
        when=when,
        user_properties=[("crucible_verdict", verdict.state), ("crucible_reason", verdict.reason)],
    )


def _outcome(verdict: Verdict, plan: Plan, undecided_fails: bool) -> tuple[Any, Any]:
    sentence = f"{verdict.state}: {verdict.reason}"
    if verdict.state == "met":
        return "passed", None
    if verdict.state == "undecided" and not (undecided_fails or verdict.mistake):
        return "skipped", (plan.path, plan.line + 1, f"Skipped: {sentence}")
    return "failed", sentence
