"""Responses that all pages give."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from pytest_crucible.features.view.site import Site


def site_of(request: Request) -> Site:
    """Return the site that a request is for."""
    site: Site = request.app.state.site
    return site


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page, or a part of one."""
    return HTMLResponse(site_of(request).render(template, **values), status)
