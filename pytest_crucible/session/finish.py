"""Ends a session: decides verdicts, reports them as tests, writes report files and prints the summary.

Imported while the first requests are in flight (`late_imports`); a session that sends none imports it when it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest
from _pytest.junitxml import xml_key

from pytest_crucible.records import Run
from pytest_crucible.records.settings import Settings
from pytest_crucible.report.terminal import Line, summary
from pytest_crucible.report.verdicts import annotation_lines
from pytest_crucible.runs.evaluate import conclude
from pytest_crucible.runs.plugins import load_extensions
from pytest_crucible.runs.report_facts import add_run_facts, add_verdict_facts
from pytest_crucible.session.reports import (
    add_suite_properties,
    name_in_junit,
    rerun_report,
    verdict_reports,
    write_reports,
)
from pytest_crucible.session.resources import budget_lines
from pytest_crucible.session.workers import Messages
from pytest_crucible.store.runs import RunStore


def decide_verdicts(config: pytest.Config, settings: Settings, store: RunStore, run: str, *, interrupted: bool) -> Run:
    """Analyse the stored replies and decide all verdicts. Raises CrucibleError."""
    return conclude(
        store,
        run,
        alpha=settings.alpha,
        strict=settings.strict,
        interrupted=interrupted,
        amend=lambda verdict: config.hook.pytest_crucible_verdict(config=config, verdict=verdict),
        extensions=load_extensions(config.hook, config),
        memory=settings.memory,
    )


def with_verdict_facts(config: pytest.Config, settings: Settings, run: Run) -> Run:
    """Return the run with what features say of its verdicts, if a report or the terminal shows it."""
    return add_verdict_facts(run, config.hook) if _shows_facts(config, settings) else run


def with_run_facts(config: pytest.Config, settings: Settings, run: Run) -> Run:
    """Return the run with what features say of it, if a report or the terminal shows it; the JUnit file then has it, too."""
    if not _shows_facts(config, settings):
        return run
    whole = add_run_facts(run, config.hook)
    add_suite_properties(config, whole)
    return whole


def _shows_facts(config: pytest.Config, settings: Settings) -> bool:
    is_reported = settings.json or settings.report or config.stash.get(xml_key, None) is not None
    return bool(is_reported or config.get_verbosity() > 0 or "GITHUB_STEP_SUMMARY" in os.environ)


def report_verdicts(session: pytest.Session, settings: Settings, run: Run, messages: Messages) -> None:
    """Report each verdict as a test; `messages` has the items that ran, and the failures that they expect."""
    config, failed = session.config, set()
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    # Without this the progress column passes 100 %.
    session.testscollected += len(run.verdicts) - messages.expected_verdicts
    for verdict in run.verdicts:
        reports = verdict_reports(
            verdict,
            analyses[verdict.nodeid],
            family_size=run.family_size,
            undecided_fails=settings.undecided == "fail",
            expected=messages.expected_failures.get(verdict.nodeid),
            facts=run.facts_of(verdict),
        )
        name_in_junit(config, reports[0], verdict.nodeid, verdict.subject)
        for report in reports:
            config.hook.pytest_runtest_logreport(report=report)
            if report.failed:
                failed.add(verdict.nodeid)
    last_failed = config.pluginmanager.get_plugin("lfplugin")
    # --lf has to run the whole experiment again: a verdict is not an item that pytest can run.
    if last_failed is not None:
        for nodeid in {item for experiment in failed for item in messages.items.get(experiment, ())}:
            last_failed.pytest_runtest_logreport(report=rerun_report(nodeid))


def finish_lines(config: pytest.Config, settings: Settings, run: Run) -> Iterator[str]:
    """Write the requested reports; yields the lines on budgets, failed reports and GitHub's summary."""
    yield from budget_lines(run.budgets)
    yield from write_reports(config, settings, run)
    if run.experiments and "GITHUB_STEP_SUMMARY" in os.environ:
        from pytest_crucible.report.markdown import add_summary

        if sentence := add_summary(run, os.environ):
            yield sentence


def summary_lines(run: Run | None, messages: Iterable[str], *, verbosity: int, width: int) -> list[Line]:
    """Return the lines of the terminal's section."""
    lines = [Line(text) for text in messages]
    if run is not None and run.experiments:
        return [*summary(run, verbosity=verbosity, width=width), *lines]
    return lines


def github_annotations(run: Run, settings: Settings) -> Iterable[str]:
    """Return the annotations for GitHub's log; none outside of GitHub Actions."""
    return annotation_lines(run, os.environ, undecided_fails=settings.undecided == "fail")
