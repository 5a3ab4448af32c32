"""The dashboard's web application: its addresses, and what guards them."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pytest_crucible.features.view.live import stream
from pytest_crucible.features.view.live.state import StateReader
from pytest_crucible.features.view.live.watcher import Watcher
from pytest_crucible.features.view.pages import compare, labels, run, runs, sample, samples, trend
from pytest_crucible.features.view.pages.respond import of_run
from pytest_crucible.features.view.server.access import Access
from pytest_crucible.features.view.server.failures import Failures, show_failure
from pytest_crucible.features.view.site import Site
from pytest_crucible.report.html import HERE as REPORT_ASSETS

ASSETS = Path(__file__).parent / "assets"
COMPRESSED = (Middleware(GZipMiddleware),)


def make_application(site: Site) -> Starlette:
    """Return the application that serves a site."""
    routes = [
        Route("/", runs.list_page),
        Route("/events", stream.events),
        Route("/runs/{run}", of_run(run.run_page)),
        Route("/runs/{run}/events", stream.events),
        Route("/runs/{run}/results", run.results_part),
        Route("/runs/{run}/explanations", run.explanations_part),
        Route("/runs/{run}/requests", of_run(run.requests_page)),
        Route("/runs/{run}/requests/counts", run.requests_part),
        Route("/runs/{run}/training", of_run(run.training_page)),
        Route("/runs/{run}/training/courses", run.training_part),
        Route("/compare", compare.choose_page),
        Route("/compare/{names:path}", compare.compare_page),
        Route("/trend", trend.choose_page),
        Route("/trend/{metric:path}", trend.trend_page),
        Route("/runs/{run}/labels", of_run(labels.labels_page)),
        # The only address that is written to.
        Route("/runs/{run}/labels", labels.record_label, methods=["POST"]),
        Route("/runs/{run}/labels/reply", of_run(labels.reply_document)),
        Route("/runs/{run}/samples", of_run(samples.samples_page)),
        Route("/runs/{run}/samples/rows", of_run(samples.samples_rows)),
        Route("/runs/{run}/samples/choices", of_run(samples.samples_choices)),
        Route("/runs/{run}/samples/{experiment}/{position}", of_run(sample.sample_page)),
        Route("/runs/{run}/samples/{experiment}/{position}/text", of_run(sample.text_page)),
        Route("/runs/{run}/samples/{experiment}/{position}/views", of_run(sample.views_part)),
        # A tag may have slashes.
        Route("/runs/tag:{tag:path}", run.tagged_page),
        # The style of reports is that of the pages, which add their own.
        Mount("/assets/report", StaticFiles(directory=REPORT_ASSETS), middleware=COMPRESSED),
        Mount("/assets", StaticFiles(directory=ASSETS), middleware=COMPRESSED),
    ]
    guards = [Middleware(Access, token=site.token, hosts=site.hosts), Middleware(Failures, site=site)]
    application = Starlette(routes=routes, middleware=guards, exception_handlers={HTTPException: show_failure})
    application.state.site = site
    application.state.watcher = Watcher(StateReader(site))
    return application
