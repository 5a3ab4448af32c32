"""The pages of a run: `/runs/RUN`, and below it its requests and its trainings. Parts that take time are loaded later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pytest_crucible.features.view.pages.respond import page, part_of_run, site_of
from pytest_crucible.features.view.requests_of_run import render_counts, render_requests
from pytest_crucible.features.view.run_results import render_explanations, render_results, render_trainings
from pytest_crucible.features.view.site import Site
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore


def run_page(request: Request, run: str) -> Response:
    """Return the frame of a run; of one that is not finished, its progress."""
    store = site_of(request).store
    facts = store.run(run)
    return page(
        request, "run.html.j2", run_id=run, facts=facts, unfinished=facts["status"] == "running",
        experiments=planned_experiments(store, run),
    )  # fmt: skip


def tagged_page(request: Request) -> Response:
    """Redirect to the page of the run that has a tag."""
    site = site_of(request)
    return RedirectResponse(site.addresses.run(site.find_run(f"tag:{request.path_params['tag']}")))


def planned_experiments(store: RunStore, run: str) -> list[tuple[Plan, Sequence[tuple[str, int]]]]:
    """Return the experiments of a run as they were planned, with the states of their stored verdicts and how many have each."""
    query = """
        SELECT verdicts.experiment, verdicts.state, COUNT(*)
        FROM verdicts JOIN experiments ON experiments.id = verdicts.experiment
        WHERE experiments.run = :run GROUP BY verdicts.experiment, verdicts.state ORDER BY verdicts.state
    """
    states: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for key, state, count in store.rows(query, run=run):
        states[key].append((state, count))
    return [(plan, states[key]) for key, plan, _ in store.experiments(run)]


async def results_part(request: Request) -> Response:
    """Return verdicts and sections of a run that has ended, for its page."""
    return await part_of_run(request, render_results, while_running=refuse_results)


async def explanations_part(request: Request) -> Response:
    """Return what each verdict of a run that has ended is made of, for its page."""
    explanations = site_of(request).explanations
    return await part_of_run(request, render_explanations, while_running=refuse_results, parts=explanations)


def refuse_results(site: Site, run: str) -> str:
    """Raise SpecError: the first half of a run says little about the rest."""
    raise SpecError(f"run {run} has not ended: its page shows its progress, and its results when it has")


def requests_page(request: Request, run: str) -> Response:
    """Return the frame of the page."""
    facts = site_of(request).store.run(run)
    return page(request, "requests.html.j2", run_id=run, unfinished=facts["status"] == "running")


async def requests_part(request: Request) -> Response:
    """Return the requests of a run; of one that is not finished, the counts so far."""
    return await part_of_run(request, render_requests, while_running=render_counts)


def training_page(request: Request, run: str) -> Response:
    """Return the frame of the page."""
    facts = site_of(request).store.run(run)
    return page(request, "training.html.j2", run_id=run, unfinished=facts["status"] == "running")


async def training_part(request: Request) -> Response:
    """Return the trainings behind a run."""
    return await part_of_run(request, render_trainings, while_running=render_trainings)
