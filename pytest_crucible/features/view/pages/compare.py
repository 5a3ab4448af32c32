"""The pages `/compare` and `/compare/RUN/RUN`: run against run, as `crucible compare`, and the samples that changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pytest_crucible.features.view.changed_samples import CHANGES, Change
from pytest_crucible.features.view.compared_runs import (
    ComparedRuns,
    compare_once,
    differing_facts,
    read_question,
    split_names,
)
from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.plan.targets import ALTERNATIVES
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.report.html import text_of
from pytest_crucible.report.pictures import differences, levels
from pytest_crucible.runs.compare import StoredArm
from pytest_crucible.runs.named_arms import find_arm
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.runs import RunStore

ROWS = 50
"""Samples on one page of the list."""
MOST_RUNS = 200
"""Runs that are suggested."""


def choose_page(request: Request) -> Response:
    """Return the page on which two runs are chosen; with both in the query, go to their comparison."""
    state = dict(request.query_params)
    names = state.pop("candidate", "").strip(), state.pop("baseline", "").strip()
    if all(names):
        rest = [(name, value) for name, value in request.query_params.multi_items() if name in state and value]
        address = site_of(request).addresses.compare(*names)
        return RedirectResponse(f"{address}?{urlencode(rest)}" if rest else address, status_code=303)
    runs = list_runs(site_of(request).store, limit=MOST_RUNS)
    return page(request, "compare_choice.html.j2", runs=runs, candidate=names[0], baseline=names[1])


def compare_page(request: Request) -> Response:
    """Return the frame of a comparison, or one of its parts: the results, and the samples that changed."""
    _, candidate, baseline, *parts = (*split_names(request.scope["raw_path"].decode("ascii")), "", "")
    part = parts[0]
    if not baseline or part not in PARTS:
        raise HTTPException(404, "an address of a comparison is /compare/RUN/RUN")
    if not part:
        return _frame(request, candidate, baseline)
    try:
        return PARTS[part](request, candidate, baseline)
    except CrucibleError as error:
        # With status 200: browsers report others in their consoles, and the page shows the sentence.
        return page(request, "failure.html.j2", error=error)


def _frame(request: Request, candidate: str, baseline: str) -> Response:
    site = site_of(request)
    sides = [find_arm(site.store, name) for name in (candidate, baseline)]
    names = [_name(side) for side in sides]
    if names != [candidate, baseline]:
        # `latest` and tags may mean another run tomorrow: an address that is sent to somebody does not.
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(site.addresses.compare(*names) + query)
    facts = [site.store.run(side.run) for side in sides]
    plans = [[plan for _, plan, _ in site.store.experiments(side.run)] for side in sides]
    return page(
        request,
        "compare.html.j2",
        sides=sides,
        names=names,
        facts=facts,
        arms=[list(dict.fromkeys(arm.name for plan in of_run for arm in plan.arms)) for of_run in plans],
        metrics=sorted({name for of_run in plans for plan in of_run for name in plan.facts}),
        differing=list(differing_facts(facts[0], plans[0], facts[1], plans[1])),
        chosen={name: request.query_params.get(name, "") for name in CHOICES},
        alternatives=ALTERNATIVES,
    )


CHOICES = ("metric", "margin", "relevant", "alternative", "alpha", "differ")
"""The names of the choices in the query of an address."""


def _name(side: StoredArm) -> str:
    return f"{side.run}:{side.arm}" if side.arm else side.run


def _results(request: Request, candidate: str, baseline: str) -> Response:
    compared = _compare(request, candidate, baseline)
    report = compared.report
    return page(
        request,
        "compare_results.html.j2",
        report=report,
        compared=compared,
        forests=list(differences(compared.run)),
        levels=list(levels(compared.run)),
        numbers={reference.key: number for number, reference in enumerate(report.references, start=1)},
        many=len(compared.run.experiments) > 1,
    )


def _compare(request: Request, candidate: str, baseline: str) -> ComparedRuns:
    site = site_of(request)
    return compare_once(site, read_question(site.store, candidate, baseline, request.query_params))


@dataclass(frozen=True)
class ListState:
    """The samples that are listed, and the one that is open."""

    experiment: int
    metric: str
    change: Change
    page: int
    open: int | None


def _samples(request: Request, candidate: str, baseline: str) -> Response:
    compared, store = _compare(request, candidate, baseline), site_of(request).store
    state = _list_state(request, compared)
    samples = compared.experiments[state.experiment - 1]
    positions = {change: samples.positions(state.metric, change) for change in CHANGES}
    first = (state.page - 1) * ROWS
    rows = list(samples.samples(state.metric, positions[state.change][first : first + ROWS].tolist()))
    sides = [find_arm(store, name) for name in (candidate, baseline)]
    return page(
        request,
        "compare_samples.html.j2",
        compared=compared,
        samples=samples,
        state=state,
        counts={change: len(places) for change, places in positions.items()},
        rows=rows,
        first=first,
        runs=[side.run for side in sides],
        numbers=[_number(store, side.run, samples.nodeid) for side in sides],
        link=lambda **changes: _link(request, **changes),
        replies=None if state.open is None else samples.replies(state.open),
        show=text_of,
        opened=None if state.open is None else samples.own_positions(state.open),
    )


def _list_state(request: Request, compared: ComparedRuns) -> ListState:
    """Return the state of the list. Raises SpecError for a value that the comparison does not have."""
    query = request.query_params
    experiment = _whole_number(query.get("experiment", ""), 1, len(compared.experiments))
    samples = compared.experiments[experiment - 1]
    metric = query.get("by") or samples.metric or ""
    if metric not in samples.scores:
        raise SpecError(
            f"metric {metric!r} was not scored in both arms: choose {', '.join(samples.scores) or 'another run'}"
        )
    change = query.get("change", CHANGES[0])
    if change not in CHANGES:
        raise SpecError(f"change={change!r} is not a change: choose {', '.join(CHANGES)}")
    planned = samples.pair.inputs.plan.planned
    return ListState(
        experiment=experiment,
        metric=metric,
        change=cast(Change, change),
        page=_whole_number(query.get("page", ""), 1, planned),
        open=_whole_number(query["open"], 0, planned - 1) if query.get("open") else None,
    )


def _whole_number(text: str, least: int, most: int) -> int:
    """Return a number of the query, or the least without one. Raises SpecError."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else least if not text else -1
    if not least <= number <= most:
        raise SpecError(f"{text!r} is not a number from {least} to {most}: follow the links of the page")
    return number


def _number(store: RunStore, run: str, nodeid: str) -> int:
    """Return the number of an experiment in addresses, from 1."""
    return 1 + [plan.nodeid for _, plan, _ in store.all_experiments(run)].index(nodeid)


def _link(request: Request, **changes: str | int | None) -> str:
    """Return the address of the page with a part of its state changed; None removes it."""
    state = [(name, value) for name, value in request.query_params.multi_items() if name not in changes and value]
    state += [(name, str(value)) for name, value in changes.items() if value is not None]
    return f"?{urlencode(state)}"


PARTS: dict[str, Callable[[Request, str, str], Response]] = {"": _frame, "results": _results, "samples": _samples}
"""The parts of the page, which it fetches: by the last name of their addresses."""
