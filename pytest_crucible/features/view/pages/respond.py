"""Responses that all pages give."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from pytest_crucible.features.view.own_process import compute_apart
from pytest_crucible.features.view.site import ComputedOnce, Site
from pytest_crucible.records.errors import CrucibleError
from pytest_crucible.records.redaction import redact


def site_of(request: Request) -> Site:
    """Return the site that a request is for."""
    site: Site = request.app.state.site
    return site


class EscapedJson(JSONResponse):
    """JSON in ASCII: half a surrogate pair, which a name of an old store may have, cannot be written as UTF-8."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def document(request: Request, content: Any, status: int = 200) -> EscapedJson:
    """Return JSON without keys."""
    return EscapedJson(redact(content, site_of(request).hide), status)


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page, or a part of one."""
    return HTMLResponse(site_of(request).render(template, **values), status)


async def part(request: Request, show: Callable[..., Awaitable[Response]], *values: Any) -> Response:
    """Return the part of a page that `show(request, *values)` returns; a sentence where it raises an expected error."""
    try:
        return await show(request, *values)
    except CrucibleError as error:
        # With status 200: browsers report others in their consoles, and the page shows the sentence.
        return page(request, "failure.html.j2", error=error)


def of_run(show: Callable[[Request, str], Response]) -> Callable[[Request], Response]:
    """Return the function of a page below `/runs/{run}`, from one that takes the id of the run.

    `latest`, `tag:NAME` and the beginning of an id are redirected to the same page of the full id.
    """

    def show_run(request: Request) -> Response:
        named = request.path_params["run"]
        site = site_of(request)
        with site.store.one_connection():
            run = site.find_run(named)
            if run == named:
                return show(request, run)
        rest = request.scope["path"].removeprefix(f"/runs/{named}")
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/runs/{run}{rest}{query}")

    return show_run


Render = Callable[[Site, str], str]
"""Returns a part of a run's page as HTML."""


async def part_of_run(
    request: Request, render: Render, *, while_running: Render, parts: ComputedOnce | None = None
) -> Response:
    """Return a part of a page below `/runs/{run}`, computed once in a process of its own when the run is finished.

    It waits for those that are computed with it: the site's results, if not for other `parts`.
    """
    return await part(request, _part_of_run, render, while_running, parts or site_of(request).results)


async def _part_of_run(request: Request, render: Render, while_running: Render, parts: ComputedOnce) -> Response:
    site = site_of(request)
    run = await run_in_threadpool(site.find_run, request.path_params["run"])
    facts = await run_in_threadpool(site.store.run, run)
    if facts["status"] == "running":
        return HTMLResponse(await run_in_threadpool(while_running, site, run))
    function = f"{render.__module__}:{render.__name__}"
    # A run that is resumed finishes again.
    key = (function, run, facts["finished"])
    computed = parts.start(key, lambda: compute_apart(function, site.store.where, run))
    # Awaited here and not on a thread: a dozen waiting pages would take all threads that serve others.
    return HTMLResponse(await asyncio.wrap_future(computed))
