"""The end of a session: stored answers to analyses, analyses to verdicts, verdicts to test reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_crucible import gate
from pytest_crucible.analyse.analysis import Given, analyse, clusters_of
from pytest_crucible.analyse.drifts import drifts
from pytest_crucible.analyse.findings import tallies
from pytest_crucible.analyse.usage import usages
from pytest_crucible.cns3.antagonist.stored import METRIC, from_text
from pytest_crucible.environment import now
from pytest_crucible.records import CUT_SHORT, Analysis, ArmEvents, Drift, FindingTally, Plan, Run, Verdict, Worst
from pytest_crucible.report.sentences import evidence, sentence
from pytest_crucible.store.answers import (
    cached_replies,
    earlier_arm,
    group_names,
    inapplicable_reasons,
    load_answers,
    load_arm,
    reply_texts,
    reused_answers,
    sample_ids,
    texts_of,
)
from pytest_crucible.store.events import Place, load_budgets, load_events
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
    analysed, questions = analysed_experiments(store, run, alpha=alpha, interrupted=interrupted)
    adjusted = list(analysed.values())
    verdicts = gate.judge(adjusted, alpha=alpha, strict=strict, questions=questions)
    amended = tuple(amend(verdict) or verdict for verdict in verdicts)
    for key, analysis in analysed.items():
        store.set_kinds(key, analysis.kinds)
        store.add_verdicts(key, [one for one in amended if one.nodeid == analysis.plan.nodeid])
    finished_at = now()
    is_whole = not interrupted and all(one.finished for one in adjusted)
    store.end_run(run, finished=finished_at, status="finished" if is_whole else "interrupted")
    return concluded_run(store, run, finished_at, questions, adjusted, amended)


def analysed_experiments(
    store: RunStore, run: str, *, alpha: float, interrupted: bool
) -> tuple[dict[int, Analysis], int]:
    """The analysis of each experiment that began, by its key, and how many comparisons the run asked. Nothing is stored."""
    entered = store.experiments(run)
    questions = sum(len(plan.contrasts) for _, plan, _ in entered)
    begun = [(key, plan, finished) for key, plan, finished in entered if store.has_arms(key)]
    told = load_events(store, run)
    analyses = [
        _analysis(store, run, key, plan, finished or (plan.by_item and not interrupted), alpha, questions, told)
        for key, plan, finished in begun
    ]
    adjusted = gate.adjust(analyses, questions=questions)
    return {key: analysis for (key, _, _), analysis in zip(begun, adjusted, strict=True)}, questions


def _analysis(
    store: RunStore,
    run: str,
    key: int,
    plan: Plan,
    finished: bool,
    alpha: float,
    questions: int,
    told: Mapping[Place, ArmEvents],
) -> Analysis:
    given = stored_answers(store, key, plan, finished)
    analysis, worst = analyse(given, alpha=alpha, questions=questions)
    reused, cached = reused_answers(store, key), cached_replies(store, key)
    return dataclasses.replace(
        analysis,
        reused=reused,
        from_cache=cached,
        drifts=tuple(_drifts(store, run, key, given, {*reused, *cached}, alpha)),
        worst=_told(store, key, plan, worst),
        inapplicable=_reasons(store, key, analysis),
        usage=usages(plan, told, level=1 - alpha),
        findings=_findings(store, key, given, alpha),
    )


def _drifts(store: RunStore, run: str, key: int, given: Given, not_asked: set[str], alpha: float) -> Iterator[Drift]:
    """Of the baselines that were asked anew, all of them, by an adapter that had been asked the same before."""
    for number, arm in enumerate(given.plan.arms):
        if arm.role == "candidate" or arm.name in not_asked or arm.stored_run is not None:
            continue
        earlier = earlier_arm(store, key, number, run=run)
        if earlier is not None:
            then = load_arm(store, earlier[0], number)
            yield from drifts(given, number, then, earlier[1], alpha=alpha)


def stored_answers(store: RunStore, key: int, plan: Plan, finished: bool) -> Given:
    """All that was answered in an experiment."""
    answers = tuple(load_answers(store, key, number) for number in range(len(plan.arms)))
    return Given(
        plan=plan,
        answers=answers,
        groups=group_names(store, plan.dataset_sha256),
        finished=finished and not any(one.reason in CUT_SHORT for arm in answers for one in arm.lost),
        known_kinds=store.known_kinds(plan, key),
    )


def _findings(store: RunStore, key: int, given: Given, alpha: float) -> tuple[FindingTally, ...]:
    """What the antagonist found in each arm's replies, where it was asked."""
    found: list[FindingTally] = []
    for number, (arm, answers) in enumerate(zip(given.plan.arms, given.answers, strict=True)):
        if METRIC in answers.labels:
            texts = texts_of(store, key, number, METRIC)
            flagged = {unit: from_text(text) for unit, text in texts.items()}
            clusters = clusters_of(given.groups)
            found += tallies(arm.name, flagged, samples=len(given.groups), clusters=clusters, level=1 - alpha)
    return tuple(found)


def _reasons(store: RunStore, key: int, analysis: Analysis) -> Mapping[str, str]:
    """Why metrics do not apply, looked up where some do not."""
    some = any(one.inapplicable for one in analysis.estimates)
    return inapplicable_reasons(store, key, 0) if some else {}


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


def concluded_run(
    store: RunStore,
    run: str,
    finished: str,
    questions: int,
    analyses: Sequence[Analysis],
    verdicts: tuple[Verdict, ...],
) -> Run:
    """The run whole. Its exit status is known to the session alone."""
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
        questions=questions,
        experiments=tuple(analyses),
        verdicts=verdicts,
        exit_status=0,
        store=store.location,
        budgets=load_budgets(store, run),
    )


# -- reports ------------------------------------------------------------------------------------------------------


class VerdictRepr:
    """A failed verdict as pytest shows failures: a sentence, also in the short summary and in JUnit files."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self.reprcrash = SimpleNamespace(message=sentence)

    def __str__(self) -> str:
        return self._sentence

    def toterminal(self, tw: pytest.TerminalReporter) -> None:
        tw.line(self._sentence)


def verdict_reports(verdict: Verdict, analysis: Analysis, *, undecided_fails: bool) -> list[pytest.TestReport]:
    """Setup, call and teardown reports, so that everything that listens to tests hears a verdict."""
    return [_report(verdict, analysis, when, undecided_fails) for when in ("setup", "call", "teardown")]


def again(nodeid: str) -> pytest.TestReport:
    """What pytest's --lf has to hear, so that it runs an item again which passed but whose verdict failed."""
    return pytest.TestReport(
        nodeid=nodeid, location=("", None, ""), keywords={}, outcome="failed", longrepr=None, when="call"
    )


def _report(verdict: Verdict, analysis: Analysis, when: Any, undecided_fails: bool) -> pytest.TestReport:
    plan, said = analysis.plan, sentence(verdict, analysis)
    outcome: Any = _outcome(verdict, undecided_fails) if when == "call" else "passed"
    shown = {"passed": None, "skipped": (plan.path, plan.line + 1, f"Skipped: {said}"), "failed": VerdictRepr(said)}
    return pytest.TestReport(
        nodeid=f"{plan.nodeid}::{verdict.subject}",
        # Not the end of the nodeid: pytest would rewrite the dots of a number in it for -v.
        location=(plan.path, plan.line, f"{plan.nodeid.partition('::')[2]} {verdict.subject}"),
        keywords={"crucible": 1},
        outcome=outcome,
        longrepr=cast(Any, shown[outcome]),
        when=when,
        # JUnit files take those of the teardown.
        user_properties=_properties(verdict, analysis, said) if when != "setup" else [],
    )


def _properties(verdict: Verdict, analysis: Analysis, said: str) -> list[tuple[str, object]]:
    """For JUnit files: what was ruled, and the numbers that it rests on, in full."""
    found: list[tuple[str, object]] = [("crucible_state", verdict.state), ("crucible_sentence", said)]
    numbers = evidence(verdict, analysis)
    return [*found, *((f"crucible_{name}", value) for name, value in numbers.items() if value is not None)]


def _outcome(verdict: Verdict, undecided_fails: bool) -> str:
    if verdict.state == "undecided" and not (undecided_fails or verdict.mistake):
        return "skipped"
    return "passed" if verdict.state == "met" else "failed"
