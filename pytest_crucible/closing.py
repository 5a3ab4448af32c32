"""The end of a session: what was stored is judged, reported as tests, written and told.

Imported before anything is asked, and by a session that has asked nothing when it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pytest

from pytest_crucible.accounts import budget_lines
from pytest_crucible.conclusion import again, conclude, verdict_reports
from pytest_crucible.github import add_summary, annotated
from pytest_crucible.options import Settings
from pytest_crucible.outputs import write_outputs
from pytest_crucible.records import Run
from pytest_crucible.report.terminal import Line, summary
from pytest_crucible.store.runs import RunStore


def judged(config: pytest.Config, settings: Settings, store: RunStore, run: str, *, interrupted: bool) -> Run:
    """Analyse and judge what the run store holds. Raises CrucibleError."""
    return conclude(
        store,
        run,
        alpha=settings.alpha,
        strict=settings.strict,
        interrupted=interrupted,
        amend=lambda verdict: config.hook.pytest_crucible_verdict(config=config, verdict=verdict),
    )


def report_verdicts(session: pytest.Session, settings: Settings, run: Run, items: Mapping[str, Sequence[str]]) -> None:
    """Report each verdict as a test; `items` are the nodeids that ran, by the experiment that they belong to."""
    config, failed = session.config, set()
    analyses = {analysis.plan.nodeid: analysis for analysis in run.experiments}
    session.testscollected += len(run.verdicts)  # else the progress column passes 100 %
    for verdict in run.verdicts:
        for report in verdict_reports(verdict, analyses[verdict.nodeid], undecided_fails=_fails(settings)):
            config.hook.pytest_runtest_logreport(report=report)
            if report.failed:
                failed.add(verdict.nodeid)
    last_failed = config.pluginmanager.get_plugin("lfplugin")
    if last_failed is not None:  # --lf is to run the whole experiment again: a verdict alone cannot be
        for nodeid in {item for experiment in failed for item in items.get(experiment, ())}:
            last_failed.pytest_runtest_logreport(report=again(nodeid))


def written(config: pytest.Config, settings: Settings, run: Run) -> Iterator[str]:
    """Write what was asked for; what is to be said of it, and of budgets."""
    yield from budget_lines(run.budgets)
    yield from write_outputs(config, settings, run)
    said = add_summary(run, os.environ) if run.experiments else ""
    if said:
        yield said


def shown(run: Run | None, told: Iterable[str], *, verbosity: int, width: int) -> list[Line]:
    """The lines of the terminal's section."""
    lines = [Line(text) for text in told]
    if run is not None and run.experiments:
        return [*summary(run, verbosity=verbosity, width=width), *lines]
    return lines


def notes_for_github(run: Run, settings: Settings) -> Iterable[str]:
    """For GitHub's log, where it is written there."""
    return annotated(run, os.environ, undecided_fails=_fails(settings))


def _fails(settings: Settings) -> bool:
    return settings.undecided == "fail"
