"""The page `/runs/RUN`: the frame and counts of a run at once, and its results when they are computed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pytest_crucible.features.view.own_process import compute_apart
from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.features.view.site import Site
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.store.runs import RunStore


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """An experiment as it was planned, with the states of its stored verdicts."""

    plan: Plan
    states: Sequence[tuple[str, int]]


def run_page(request: Request, run: str) -> Response:
    """Return the frame of a run; of one that is not finished, its progress."""
    store = site_of(request).store
    facts = store.run(run)
    return page(
        request, "run.html.j2", run_id=run, facts=facts, unfinished=facts["status"] == "running",
        experiments=planned_experiments(store, run),
    )  # fmt: skip


def planned_experiments(store: RunStore, run: str) -> list[PlannedExperiment]:
    """Return the experiments of a run without analysing them."""
    return [
        PlannedExperiment(plan, sorted(Counter(verdict["state"] for verdict in store.verdicts(key).values()).items()))
        for key, plan, _ in store.experiments(run)
    ]


def results_part(part: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that answers with a part of the results of a finished run, for its page."""

    async def respond(request: Request) -> Response:
        site = site_of(request)
        run = await run_in_threadpool(site.store.find_run, request.path_params["run"])
        finished = await run_in_threadpool(site.store.scalar, "SELECT finished FROM runs WHERE id = :run", run=run)
        try:
            # Awaited here and not on a thread: a dozen waiting pages would take all threads that serve others.
            return HTMLResponse(await asyncio.wrap_future(results_of(site, run, part, finished)))
        except CrucibleError as error:
            # With status 200: browsers report others in their consoles, and the page shows the sentence.
            return page(request, "failure.html.j2", error=error)

    return respond


def results_of(site: Site, run: str, part: str, finished: str | None) -> Future[str]:
    """Return a part of the results of a run, perhaps not computed yet. A run that is resumed finishes again."""
    function = f"pytest_crucible.features.view.results:render_{part}"
    return site.results.start((run, part, finished), lambda: compute_apart(function, site.store.where, run))
