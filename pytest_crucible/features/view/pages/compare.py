"""The pages `/compare` and `/compare/RUN/RUN`: run against run, as `crucible compare`, and the samples that changed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pytest_crucible.features.view.addresses import parse_number
from pytest_crucible.features.view.arm_making import differing_facts, load_making
from pytest_crucible.features.view.changed_samples import CHANGES, Change, ChangedSamples
from pytest_crucible.features.view.compared_runs import (
    CHOICES,
    ComparedRuns,
    find_side,
    read_choices,
    split_names,
    start_comparison,
)
from pytest_crucible.features.view.pages.respond import page, part, site_of
from pytest_crucible.plan.targets import ALTERNATIVES
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.report.html import text_of
from pytest_crucible.store.history import list_runs
from pytest_crucible.store.outcomes import reply_texts
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import samples as load_samples

ROWS = 50
"""Samples on one page of the list."""
MOST_RUNS = 200
"""Runs that are suggested."""


def choose_page(request: Request) -> Response:
    """Return the page on which two runs are chosen; with both in the query, go to their comparison."""
    query, addresses = request.query_params, site_of(request).addresses
    names = query.get("candidate", "").strip(), query.get("baseline", "").strip()
    if all(names):
        choices = [(name, text) for name, texts in read_choices(query).items() for text in texts]
        address = addresses.compare(*names)
        return RedirectResponse(f"{address}?{urlencode(choices)}" if choices else address, status_code=303)
    runs = list_runs(site_of(request).store, limit=MOST_RUNS)
    return page(request, "compare_choice.html.j2", runs=runs, candidate=names[0], baseline=names[1])


async def compare_page(request: Request) -> Response:
    """Return the frame of a comparison, or one of its parts: the results, and the samples that changed."""
    _, candidate, baseline, *parts = (*split_names(request.scope["raw_path"].decode("ascii")), "", "")
    if not baseline or (parts[0] and parts[0] not in PARTS):
        raise HTTPException(404, "an address of a comparison is /compare/RUN/RUN")
    if parts[0]:
        return await part(request, _part, (candidate, baseline), parts[0])
    return await run_in_threadpool(_frame, request, candidate, baseline)


async def _part(request: Request, names: tuple[str, str], name: str) -> Response:
    site, choices = site_of(request), read_choices(request.query_params)
    try:
        comparison = await run_in_threadpool(start_comparison, site, *names, choices)
        # Awaited here and not on a thread: a dozen waiting pages would take all threads that serve others.
        compared = await asyncio.wrap_future(comparison)
    except CrucibleError:
        if name == "samples":
            # The results say it.
            return HTMLResponse("")
        raise
    return await run_in_threadpool(PARTS[name], request, names, compared)


def _frame(request: Request, candidate: str, baseline: str) -> Response:
    site = site_of(request)
    sides = [find_side(site, name) for name in (candidate, baseline)]
    names = [f"{side.run}:{side.arm}" if side.arm else side.run for side in sides]
    if names != [candidate, baseline]:
        # `latest` and tags may mean another run tomorrow: an address that is sent to somebody does not.
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(site.addresses.compare(*names) + query)
    makings = [load_making(site.store, side) for side in sides]
    plans = [making.plans for making in makings]
    return page(
        request,
        "compare.html.j2",
        sides=sides,
        names=names,
        facts=[making.run for making in makings],
        arms=[list(dict.fromkeys(arm.name for plan in of_run for arm in plan.arms)) for of_run in plans],
        metrics=sorted({name for of_run in plans for plan in of_run for name in plan.facts}),
        differing=list(differing_facts(*makings)),
        chosen={name: request.query_params.get(name, "") for name in CHOICES},
        alternatives=ALTERNATIVES,
    )


def _results(request: Request, names: tuple[str, str], compared: ComparedRuns) -> Response:
    return HTMLResponse(compared.results)


@dataclass(frozen=True)
class ListState:
    """The part of the list that is shown, and the sample that is open."""

    experiment: int
    metric: str
    change: Change
    page: int
    open: int | None


def _samples(request: Request, names: tuple[str, str], compared: ComparedRuns) -> Response:
    site, state = site_of(request), _list_state(request, compared)
    store = site.store
    samples = compared.experiments[state.experiment - 1]
    runs = [find_side(site, name).run for name in names]
    rows = list(_rows(store, samples, state))
    opened = None if state.open is None else _open_sample(store, samples, state.open, runs)
    return page(
        request,
        "compare_samples.html.j2",
        experiments=[each.nodeid for each in compared.experiments],
        samples=samples,
        state=state,
        counts={change: len(scores.positions) for change, scores in samples.changes[state.metric].items()},
        rows=rows,
        first=(state.page - 1) * ROWS,
        opened=opened,
        link=lambda **changes: _link(request, **changes),
        show=text_of,
    )


@dataclass(frozen=True)
class ListRow:
    """A sample with both scores, and their difference: positive is better."""

    position: int
    sample: str
    ours: float
    theirs: float
    difference: float


def _rows(store: RunStore, samples: ChangedSamples, state: ListState) -> Iterator[ListRow]:
    scores, sign = samples.changes[state.metric][state.change], samples.signs[state.metric]
    on_page = slice((state.page - 1) * ROWS, state.page * ROWS)
    positions = scores.positions[on_page].tolist()
    named = load_samples(store, samples.dataset, positions)
    for position, ours, theirs in zip(
        positions, scores.ours[on_page].tolist(), scores.theirs[on_page].tolist(), strict=True
    ):
        yield ListRow(position, named[position].id, ours, theirs, sign * (ours - theirs))


@dataclass(frozen=True)
class OpenedReply:
    """The first reply of one arm to the opened sample, and where its run has it."""

    arm: str
    text: str | None
    run: str
    experiment: int
    position: int | None


def _open_sample(
    store: RunStore, samples: ChangedSamples, position: int, runs: list[str]
) -> tuple[Sample, list[OpenedReply]]:
    replies = []
    for side, run in zip(samples.sides, runs, strict=True):
        own = side.position(position)
        text = None if own is None else reply_texts(store, side.key, side.number, [own]).get(own)
        number = 1 + [key for key, _, _ in store.all_experiments(run)].index(side.key)
        replies.append(OpenedReply(side.name, text, run, number, own))
    return load_samples(store, samples.dataset, [position])[position], replies


def _list_state(request: Request, compared: ComparedRuns) -> ListState:
    """Return the state of the list. Raises SpecError for a value that the comparison does not have."""
    query = request.query_params
    experiment = _whole_number(query.get("experiment", ""), 1, len(compared.experiments))
    samples = compared.experiments[experiment - 1]
    metric = query.get("by") or samples.metric or ""
    change = cast(Change, query.get("change") or CHANGES[0])
    if metric not in samples.changes:
        scored = ", ".join(samples.changes) or "another run"
        raise SpecError(f"metric {metric!r} was not scored in both arms: choose {scored}")
    if change not in CHANGES:
        raise SpecError(f"change={change!r} is not a change: choose {', '.join(CHANGES)}")
    pages = math.ceil(len(samples.changes[metric][change].positions) / ROWS)
    return ListState(
        experiment=experiment,
        metric=metric,
        change=change,
        page=_whole_number(query.get("page", ""), 1, max(1, pages)),
        open=_whole_number(query["open"], 0, samples.planned - 1) if query.get("open") else None,
    )


def _whole_number(text: str, least: int, most: int) -> int:
    """Return a number of the query, or the least without one. Raises SpecError."""
    number = parse_number(text or str(least), least, most)
    if number is None:
        raise SpecError(f"{text!r} is not a number from {least} to {most}: follow the links of the page")
    return number


def _link(request: Request, **changes: str | int | None) -> str:
    """Return the address of the page with a part of its state changed; None removes it."""
    state = [
        (name, value)
        for name, value in request.query_params.multi_items()
        if name not in (*changes, "compare") and value
    ]
    state += [(name, str(value)) for name, value in changes.items() if value is not None]
    return f"?{urlencode(state)}"


PARTS: dict[str, Callable[[Request, tuple[str, str], Any], Response]] = {"results": _results, "samples": _samples}
"""The parts of the page, which it fetches: by the last name of their addresses."""
