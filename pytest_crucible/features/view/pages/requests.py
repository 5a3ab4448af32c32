"""The page `/runs/RUN/requests`: latency, tokens, cost, limits, retries, hedges and losses of a run."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pytest_crucible.features.view.own_process import compute_apart
from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.features.view.requests_of_run import render_counts
from pytest_crucible.records.errors import CrucibleError


def requests_page(request: Request, run: str) -> Response:
    """Return the frame of the page."""
    facts = site_of(request).store.run(run)
    return page(request, "requests.html.j2", run_id=run, unfinished=facts["status"] == "running")


async def requests_part(request: Request) -> Response:
    """Return the requests of a run; of one that is not finished, the counts so far."""
    site, run = site_of(request), request.path_params["run"]
    facts = await run_in_threadpool(site.store.run, run)
    if facts["status"] == "running":
        return HTMLResponse(await run_in_threadpool(render_counts, site, run))
    function = "pytest_crucible.features.view.requests_of_run:render_requests"
    requests = site.results.start(
        ("requests", run, facts["finished"]), lambda: compute_apart(function, site.store.where, run)
    )
    try:
        return HTMLResponse(await asyncio.wrap_future(requests))
    except CrucibleError as error:
        return page(request, "failure.html.j2", error=error)
