"""The samples of a run, from its store: the chapters of those reports that show them."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from functools import partial

from pytest_crucible.analyse.analysis import score_table
from pytest_crucible.analyse.slices import slices
from pytest_crucible.analyse.worst import judged_metric
from pytest_crucible.conclusion import stored_answers
from pytest_crucible.records import Analysis, Run, SampleColumns
from pytest_crucible.report.chapters import Chapter
from pytest_crucible.report.folding import worst_first
from pytest_crucible.report.model import report_of
from pytest_crucible.report.page.render import render_html
from pytest_crucible.store.exchanges import exchanges, fates, ids, latencies
from pytest_crucible.store.runs import RunStore

INSTANT_S = 0.001


@contextlib.contextmanager
def chapters(run: Run) -> Iterator[tuple[Chapter, ...]]:
    """A chapter for each experiment that began, for as long as the run store is open."""
    store = RunStore(run.store)
    try:
        keys = {plan.nodeid: key for key, plan, _ in store.experiments(run.id)}
        yield tuple(_chapter(store, keys[one.plan.nodeid], one, run.alpha) for one in run.experiments)
    finally:
        store.close()


def _chapter(store: RunStore, key: int, analysis: Analysis, alpha: float) -> Chapter:
    plan = analysis.plan
    given = stored_answers(store, key, plan, analysis.finished)
    table = score_table(given)
    metric = judged_metric(plan, table.scores)
    asked = [metric, *(one.metric for one in plan.contrasts), *(one.metric for one in plan.targets)]
    arms, size = range(len(plan.arms)), len(given.groups)
    columns = SampleColumns(
        ids=ids(store, plan.dataset_sha256),
        groups=given.groups,
        scores={name: tuple(one.values.tolist() for one in of_arms) for name, of_arms in table.scores.items()},
        latency_s=tuple(_worth_telling(latencies(store, key, number, size)) for number in arms),
        became=tuple(fates(store, key, number, size) for number in arms),
    )
    return Chapter(
        analysis=analysis,
        metric=metric,
        judged=tuple(dict.fromkeys(one for one in asked if one is not None and one in table.scores)),
        columns=columns,
        facts=table.facts,
        clusters=table.clusters,
        slices=slices(plan, table.facts, table.scores, given.groups, alpha=alpha),
        read=partial(exchanges, store, key, plan),
    )


def _worth_telling(seconds: list[float]) -> list[float]:
    """What answers within a millisecond was not waited for: a file, or a script."""
    return (
        seconds if max((one for one in seconds if one == one), default=0.0) >= INSTANT_S else [math.nan] * len(seconds)
    )


def html_report(run: Run) -> str:
    """A run as one HTML page."""
    run = worst_first(run)
    with chapters(run) as found:
        return render_html(report_of(run), found)
