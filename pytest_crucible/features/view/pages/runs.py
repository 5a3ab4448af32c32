"""The page `/`: all runs, or those that fit the filters in its address."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from pytest_crucible.commands.runs import RUN_HEADS, run_cells
from pytest_crucible.features.view.addresses import parse_number
from pytest_crucible.features.view.live.state import resuming_run
from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import RunSummary
from pytest_crucible.report.html import MARKS
from pytest_crucible.store.history import filter_runs, list_runs
from pytest_crucible.store.runs import RunStore

ON_A_PAGE = 200
"""Runs. A browser takes half a second to lay out 1,000 rows, and the filters find one faster than scrolling."""
FILTERS = ("tag", "suite", "adapter", "verdict")
NONE = "none"
"""Finds runs without verdicts."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run with its cells, as `crucible runs` prints them."""

    summary: RunSummary
    cells: tuple[str, ...]
    written: str = ""
    """When an unfinished run wrote its last reply, in UTC; empty for others, and for a run without replies."""


def list_page(request: Request) -> Response:
    """Return the list of runs, the newest first, on top unfinished ones that no other has resumed."""
    store, query = site_of(request).store, request.query_params
    every = list_runs(store)
    chosen = {name: query.get(name, "") for name in FILTERS}
    on_top = _live_runs(store, every)
    matching = sorted(_filter(every, chosen), key=lambda run: run.id not in on_top)
    # A number that no page has shows the first one.
    first = ((parse_number(query.get("page", ""), 1, 99_999) or 1) - 1) * ON_A_PAGE
    return page(
        request,
        "runs.html.j2",
        store=store.location,
        heads=RUN_HEADS,
        runs=list(_list_runs(store, matching[first : first + ON_A_PAGE])),
        total=len(every),
        matching=len(matching),
        first=first,
        on_a_page=ON_A_PAGE,
        chosen=chosen,
        comparing=query.get("compare", "").split(".")[:2],
        choices={
            "tag": sorted({tag for run in every for tag in run.tags}),
            "adapter": sorted({arm for run in every for arm in run.arms}),
            "verdict": [*MARKS, NONE],
        },
    )


def _live_runs(store: RunStore, runs: Sequence[RunSummary]) -> set[str]:
    with store.connect() as connection:
        return {run.id for run in runs if run.status == "running" and not resuming_run(connection, run.id)}


def _filter(runs: Sequence[RunSummary], chosen: Mapping[str, str]) -> list[RunSummary]:
    verdict = chosen["verdict"]
    matching = filter_runs(runs, tag=chosen["tag"], suite=chosen["suite"], adapter=chosen["adapter"])
    return [run for run in matching if not verdict or verdict in run.verdicts or (verdict == NONE and not run.verdicts)]


def _list_runs(store: RunStore, runs: Sequence[RunSummary]) -> Iterator[ListedRun]:
    for run in runs:
        written = _last_reply(store, run.id) if run.status == "running" else None
        yield ListedRun(run, run_cells(run), _utc(written) if written else "")


def _last_reply(store: RunStore, run: str) -> float | None:
    """Return when the last reply of a run was there, in seconds since 1970; None without replies."""
    # Samples are answered in their order, so that the last reply is among those of the last samples.
    query = """
        SELECT MAX((
            SELECT MAX(last.at) FROM (
                SELECT started + COALESCE(latency_s, 0) AS at FROM replies
                WHERE replies.arm = arms.id ORDER BY position DESC, epoch DESC LIMIT 200
            ) AS last
        ))
        FROM arms JOIN experiments ON experiments.id = arms.experiment WHERE experiments.run = :run
    """
    at: float | None = store.scalar(query, run=run)
    return at


def _utc(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(sep=" ", timespec="seconds")[:19]
