"""Responses that all pages give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pytest_crucible.features.view.site import Site


def site_of(request: Request) -> Site:
    """Return the site that a request is for."""
    site: Site = request.app.state.site
    return site


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page, or a part of one."""
    return HTMLResponse(site_of(request).render(template, **values), status)


def of_run(show: Callable[[Request, str], Response]) -> Callable[[Request], Response]:
    """Return the function of a page below `/runs/{run}`, from one that takes the id of the run.

    `latest`, `tag:NAME` and the beginning of an id are redirected to the same page of the full id.
    """

    def show_run(request: Request) -> Response:
        named = request.path_params["run"]
        run = site_of(request).find_run(named)
        if run == named:
            return show(request, run)
        rest = request.scope["path"].removeprefix(f"/runs/{named}")
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/runs/{run}{rest}{query}")

    return show_run
