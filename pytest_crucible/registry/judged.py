"""Decides from stored runs whether a watched checkpoint is judged."""

from __future__ import annotations

from pytest_crucible.records import RunSummary
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.lost_values import lost_values
from pytest_crucible.store.runs import RunStore


def finished_runs(store: RunStore, tag: str) -> list[RunSummary]:
    """Return the finished runs with a tag, the newest first."""
    return [run for run in list_runs(store, tag=tag) if run.status == "finished"]


def judging_run(store: RunStore, tag: str) -> RunSummary | None:
    """Return the newest finished run with a tag, unless it lost something that the next run may obtain; else None.

    Where two runs in turn lost the same, a third would too: for example a sample on which the test raises.
    """
    runs = finished_runs(store, tag)[:2]
    lost = [lost_values(store, run.id) for run in runs]
    return runs[0] if lost and (not lost[0] or lost[0] in lost[1:]) else None


def why_not_judged(store: RunStore, tag: str, version: str) -> str:
    """Return why the runs of a version do not judge it, as a sentence."""
    runs = finished_runs(store, tag)
    if not runs:
        return f"the run of {version} broke: it is judged again at the next look"
    # Without the metric: a reply may have lost several values.
    replies = {place[:-1] for place in lost_values(store, runs[0].id)}
    return f"run {runs[0].id} of {version} lost {quantity(len(replies), 'reply')}: it is judged again at the next look"
