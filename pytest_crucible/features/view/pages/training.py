"""The page `/runs/RUN/training`: loss and gradient norm by step, for each adapter that was trained."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from pytest_crucible.features.view.pages.respond import page, part_of_run, site_of
from pytest_crucible.features.view.run.trainings_of_run import render_trainings


def training_page(request: Request, run: str) -> Response:
    """Return the frame of the page."""
    facts = site_of(request).store.run(run)
    return page(request, "training.html.j2", run_id=run, unfinished=facts["status"] == "running")


async def training_part(request: Request) -> Response:
    """Return the trainings behind a run."""
    return await part_of_run(request, render_trainings, while_running=render_trainings)
