"""The page `/runs/RUN/requests`: latency, tokens, cost, limits, retries, hedges and losses of a run."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pytest_crucible.features.view.pages.respond import page, part_of_run, site_of
from pytest_crucible.features.view.run.requests_of_run import render_counts, render_requests


def requests_page(request: Request, run: str) -> Response:
    """Return the frame of the page."""
    facts = site_of(request).store.run(run)
    return page(request, "requests.html.j2", run_id=run, unfinished=facts["status"] == "running")


async def requests_part(request: Request) -> Response:
    """Return the requests of a run; of one that is not finished, the counts so far."""
    return await part_of_run(request, render_requests, while_running=render_counts)
