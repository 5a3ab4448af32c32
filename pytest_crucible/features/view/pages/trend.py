"""The pages `/trend` and `/trend/METRIC`: a metric over commits, as `crucible trend`."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pytest_crucible.features.view.addresses import parse_number
from pytest_crucible.features.view.compared_runs import split_names
from pytest_crucible.features.view.own_process import compute_apart
from pytest_crucible.features.view.pages.respond import page, part, site_of
from pytest_crucible.features.view.site import Site
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.pictures import chart_forest
from pytest_crucible.report.trends import trend_chart, trend_table, trend_title
from pytest_crucible.runs.trends import ALPHA, LAST, Trend, load_trend, scored_metrics
from pytest_crucible.store.history import list_runs

MOST_RUNS = 1_000
"""Each takes a fraction of a second to read."""


def choose_page(request: Request) -> Response:
    """Return the list of metrics; with a metric in the query, go to its page."""
    query = request.query_params
    if metric := query.get("metric", ""):
        choices = {name: query.get(name, "") for name in CHOICES}
        return RedirectResponse(site_of(request).addresses.trend(metric, **choices), status_code=303)
    metrics = scored_metrics(site_of(request).store)
    return page(request, "trends.html.j2", metrics=metrics, names=sorted({name for name, _, _ in metrics}))


async def trend_page(request: Request) -> Response:
    """Return the frame of a metric's page, or its part `points`."""
    _, metric, *parts = (*split_names(request.scope["raw_path"].decode("ascii")), "")
    if not metric:
        return RedirectResponse(site_of(request).addresses.trends())
    if parts == ["points", ""]:
        return await part(request, _points, metric)
    if parts != [""]:
        raise HTTPException(404, "an address of a trend is /trend/METRIC")
    return await run_in_threadpool(_frame, request, metric)


def _frame(request: Request, metric: str) -> Response:
    store = site_of(request).store
    return page(
        request,
        "trend.html.j2",
        metric=metric,
        chosen={name: request.query_params.get(name, "") for name in CHOICES},
        adapters=sorted({arm for run in list_runs(store) for arm in run.arms}),
        suites=sorted({nodeid for name, nodeid, _ in scored_metrics(store) if name == metric}),
        last=LAST,
        alpha=ALPHA,
    )


CHOICES = ("suite", "adapter", "last", "alpha")
"""The names of the choices in the query of an address."""


@dataclass(frozen=True)
class TrendChoice:
    """The runs that a trend is about."""

    suite: str
    adapter: str
    last: int
    alpha: float


async def _points(request: Request, metric: str) -> Response:
    choice = _read_choice(request.query_params)
    course = await asyncio.wrap_future(await run_in_threadpool(_start_trend, site_of(request), metric, choice))
    return await run_in_threadpool(_show_points, request, course)


def _show_points(request: Request, course: Trend) -> Response:
    title = trend_title(course.metric, course.nodeid, course.points, course.level)
    return page(
        request,
        "trend_points.html.j2",
        title=title,
        table=trend_table(title, course.points),
        forest=chart_forest(trend_chart(title, course.points)),
        points=course.points,
        commits={run.id: (run.commit, run.dirty) for run in list_runs(site_of(request).store)},
    )


def _start_trend(site: Site, metric: str, choice: TrendChoice) -> Future[Trend]:
    """Return a trend over the runs that are finished now, perhaps not computed yet."""
    finished = tuple(run.id for run in list_runs(site.store) if run.status == "finished")
    function = "pytest_crucible.features.view.pages.trend:compute_trend"
    return site.comparisons.start(
        ("trend", metric, choice, finished), lambda: compute_apart(function, site.store.where, metric, asdict(choice))
    )


def compute_trend(site: Site, metric: str, choice: dict[str, Any]) -> Trend:
    """Return a trend. Raises SpecError."""
    return load_trend(site.store, metric, **choice)


def _read_choice(query: QueryParams) -> TrendChoice:
    """Return the choices of an address. Raises SpecError."""
    last, alpha = query.get("last") or str(LAST), query.get("alpha") or str(ALPHA)
    runs = parse_number(last, 2, MOST_RUNS)
    if runs is None:
        raise SpecError(f"last={last!r} is not a number of runs: write a number from 2 to {MOST_RUNS:,}")
    try:
        level = float(alpha)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise SpecError(f"alpha={alpha!r} is not an error rate: write a number between 0 and 1, such as 0.05")
    return TrendChoice(query.get("suite", ""), query.get("adapter", ""), runs, level)
