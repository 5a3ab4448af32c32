"""The pages `/trend` and `/trend/METRIC`: a metric over commits, as `crucible trend`."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pytest_crucible.features.view.compared_runs import split_names
from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.features.view.site import Site
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.report.pictures import chart_forest
from pytest_crucible.report.trends import trend_chart, trend_table, trend_title
from pytest_crucible.runs.trends import ALPHA, LAST, Trend, load_trend, scored_metrics
from pytest_crucible.store.history import list_runs

MOST_RUNS = 1_000
"""Each takes a fraction of a second to read."""


def choose_page(request: Request) -> Response:
    """Return the list of metrics; with a metric in the query, go to its page."""
    state = dict(request.query_params)
    metric = state.pop("metric", "")
    if metric:
        return RedirectResponse(site_of(request).addresses.trend(metric, **state), status_code=303)
    metrics = scored_metrics(site_of(request).store)
    return page(request, "trends.html.j2", metrics=metrics, names=sorted({name for name, _, _ in metrics}))


def trend_page(request: Request) -> Response:
    """Return the frame of a metric's page, or its part `points`."""
    _, metric, *parts = (*split_names(request.scope["raw_path"].decode("ascii")), "")
    if not metric:
        return RedirectResponse(site_of(request).addresses.trends())
    if parts == ["points", ""]:
        return _points(request, metric)
    if parts != [""]:
        raise HTTPException(404, "an address of a trend is /trend/METRIC")
    chosen = {name: request.query_params.get(name, "") for name in CHOICES}
    store = site_of(request).store
    adapters = sorted({arm for run in list_runs(store) for arm in run.arms})
    suites = sorted({nodeid for name, nodeid, _ in scored_metrics(store) if name == metric})
    return page(
        request, "trend.html.j2", metric=metric, chosen=chosen, adapters=adapters, suites=suites, last=LAST, alpha=ALPHA
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


def _points(request: Request, metric: str) -> Response:
    try:
        course = _load_once(site_of(request), metric, _read_choice(request.query_params))
    except CrucibleError as error:
        # With status 200: browsers report others in their consoles, and the page shows the sentence.
        return page(request, "failure.html.j2", error=error)
    title = trend_title(course.metric, course.nodeid, course.points, course.level)
    commits = {run.id: (run.commit, run.dirty) for run in list_runs(site_of(request).store)}
    return page(
        request,
        "trend_points.html.j2",
        title=title,
        table=trend_table(title, course.points),
        forest=chart_forest(trend_chart(title, course.points)),
        points=course.points,
        commits=commits,
    )


def _load_once(site: Site, metric: str, choice: TrendChoice) -> Trend:
    """Return a trend, computed once for the runs that are finished now. Raises SpecError."""
    finished = tuple(run.id for run in list_runs(site.store) if run.status == "finished")
    return site.computed.get(
        ("trend", metric, choice, finished),
        lambda: load_trend(
            site.store, metric, suite=choice.suite, adapter=choice.adapter, last=choice.last, alpha=choice.alpha
        ),
    )


def _read_choice(query: QueryParams) -> TrendChoice:
    """Return the choices of an address. Raises SpecError."""
    last, alpha = query.get("last") or str(LAST), query.get("alpha") or str(ALPHA)
    if not (last.isascii() and last.isdigit() and len(last) < 10 and 2 <= int(last) <= MOST_RUNS):
        raise SpecError(f"last={last!r} is not a number of runs: write a number from 2 to {MOST_RUNS:,}")
    try:
        level = float(alpha)
    except ValueError:
        level = 0.0
    if not 0 < level < 1:
        raise SpecError(f"alpha={alpha!r} is not an error rate: write a number between 0 and 1, such as 0.05")
    return TrendChoice(query.get("suite", ""), query.get("adapter", ""), int(last), level)
