"""The page `/`: all runs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.store.history import list_runs


def list_page(request: Request) -> Response:
    """Return the list of runs, newest first."""
    return page(request, "runs.html.j2", runs=list_runs(site_of(request).store))
