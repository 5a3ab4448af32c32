"""The page `/runs/RUN/samples`: all samples of an experiment. Its script fetches the rows in view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from anyio import from_thread
from starlette.requests import Request
from starlette.responses import Response

from pytest_crucible.analyse.analysis import main_metric
from pytest_crucible.features.view.pages.respond import document, page, site_of
from pytest_crucible.features.view.samples.index import Codes, metric_names
from pytest_crucible.features.view.samples.indexes import IndexedSamples, StoredSamples
from pytest_crucible.features.view.samples.rows import list_rows
from pytest_crucible.features.view.samples.search import AbandonedError
from pytest_crucible.features.view.samples.select import ListState, check_name, read_number, read_state
from pytest_crucible.measures.fields import field_names
from pytest_crucible.records import Plan
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import AN_ID, printable_cell
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.runs import RunStore
from pytest_crucible.store.samples import samples

MOST_ROWS = 500
"""Rows of one request."""
MOST_GROUPS = 2_000
"""Groups of a list to choose from; where there are more, the name is typed."""
Experiments = Sequence[tuple[int, Plan, bool]]


def samples_page(request: Request, run: str) -> Response:
    """Return the frame of the list; the index is loaded meanwhile."""
    site = site_of(request)
    experiments = site.store.all_experiments(run)
    if not experiments:
        return page(request, "samples.html.j2", run_id=run, plans=[], problem="")
    number, state, problem = 1, ListState(), ""
    try:
        number = _experiment_number(request.query_params, experiments)
        state = _read_checked(site.store, request.query_params, experiments[number - 1])
    except SpecError as error:
        problem = str(error)
    site.sample_indexes.request(_experiment(site.store, run, experiments, number))
    plans = [plan for _, plan, _ in experiments]
    metrics = [facts.name for facts in plans[number - 1].metrics if not facts.is_part]
    if state.metric not in ("", *metrics):
        # A test function that scores by itself has metrics that the plan does not know.
        metrics.append(state.metric)
    return page(
        request, "samples.html.j2", run_id=run, plans=plans, number=number, state=state, metrics=metrics,
        metric=main_metric(plans[number - 1], dict.fromkeys(metrics)), problem=problem, status=400 if problem else 200,
        has_fields=_has_fields(site.store, plans[number - 1]),
    )  # fmt: skip


def _has_fields(store: RunStore, plan: Plan) -> bool:
    """Return whether the first sample has fields by which to slice."""
    first = samples(store, plan.dataset_sha256, [0]).get(0)
    return first is not None and bool(field_names([first.expected], [first.metadata]))


def samples_rows(request: Request, run: str) -> Response:
    """Return rows of a list as JSON: `count` from the place `from`, or around the sample at the position `around`."""
    query = request.query_params
    try:
        number, listed = _load(request, run)
        chosen = read_state(query)
        state = replace(_resolve_state(listed, chosen), is_abandoned=partial(from_thread.run, request.is_disconnected))
        positions = listed.positions(state)
        start, count, place = _read_window(query, positions)
    except SpecError as error:
        return document(request, {"error": str(error)}, 400)
    except AbandonedError:
        return Response(status_code=204)
    rows = list_rows(listed, state, positions[start : start + count].tolist())
    address, filters = site_of(request).addresses.sample, chosen.query()
    for row in rows:
        row["href"] = address(run, number, row["position"], **filters)
    return document(
        request,
        {
            "total": len(positions), "size": listed.index.size, "from": start, "place": place, "metric": state.metric,
            "isFinal": listed.index.is_final, "rows": rows,
        }
    )  # fmt: skip


def _read_window(query: Mapping[str, str], positions: Codes) -> tuple[int, int, int | None]:
    """Return the first place and the number of the requested rows, and the place of the sample that they are around."""
    count = read_number("count", query, least=1, otherwise=100, most=MOST_ROWS)
    start = read_number("from", query, least=0, otherwise=0)
    if "around" not in query:
        return start, count, None
    places = np.flatnonzero(positions == read_number("around", query, least=0, otherwise=0))
    if not len(places):
        return start, count, None
    place = int(places[0])
    return max(0, min(place - count // 2, len(positions) - count)), count, place


def samples_choices(request: Request, run: str) -> Response:
    """Return what the lists of an experiment can be filtered by, as JSON: metrics, groups and slices."""
    try:
        _, listed = _load(request, run)
    except SpecError as error:
        return document(request, {"error": str(error)}, 400)
    groups = listed.index.groups.names
    slices = listed.slices
    return document(
        request,
        {
            "metric": listed.index.main,
            "metrics": _choices(listed.index.metrics),
            "groups": _choices(groups) if len(groups) <= MOST_GROUPS else None,
            "slices": [
                {"field": choice, "slices": _choices(slices[choice["value"]].names)} for choice in _choices(slices)
            ],
        },
    )


def _choices(names: Iterable[str]) -> list[Mapping[str, str]]:
    """Return names with what a reader sees of them."""
    return [{"value": name, "text": printable_cell(name, AN_ID)} for name in names]


def _load(request: Request, run: str) -> tuple[int, IndexedSamples]:
    """Return the number of the experiment of a request, and its samples. Raises SpecError."""
    site = site_of(request)
    experiments = site.store.all_experiments(run)
    number = _experiment_number(request.query_params, experiments)
    return number, site.sample_indexes.get(_experiment(site.store, run, experiments, number))


def _experiment(store: RunStore, run: str, experiments: Experiments, number: int) -> StoredSamples:
    key, plan, _ = experiments[number - 1]
    return StoredSamples(store, run, key, plan)


def _experiment_number(query: Mapping[str, str], experiments: Experiments) -> int:
    if not experiments:
        raise SpecError("this run has no experiments yet: open its samples when one has begun")
    return read_number("experiment", query, least=1, otherwise=1, most=len(experiments))


def _read_checked(store: RunStore, query: Mapping[str, str], experiment: tuple[int, Plan, bool]) -> ListState:
    """Return the state of an address, without the index. Raises SpecError."""
    state, (key, plan, _) = read_state(query), experiment
    if state.metric and not any(facts.name == state.metric for facts in plan.metrics):
        check_name("metric", state.metric, [name for names in metric_names(store, key) for name in names])
    _check_baseline(state, plan)
    for place in ("at", "from"):
        read_number(place, query, least=0, otherwise=0)
    return state


def _resolve_state(listed: IndexedSamples, state: ListState) -> ListState:
    """Return a state with the main metric where it has none. Raises SpecError for names that the samples do not have."""
    index = listed.index
    if state.metric:
        check_name("metric", state.metric, index.metrics)
    if state.group:
        check_name("group", state.group, index.groups.names)
    if state.by:
        check_name("by", state.by, listed.slices)
        check_name("slice", state.slice, listed.slices[state.by].names)
    _check_baseline(state, listed.of.plan)
    return replace(state, metric=state.metric or index.main or "")


def _check_baseline(state: ListState, plan: Plan) -> None:
    if state.baseline > max(1, len(plan.arms) - 1):
        there = f"the experiment has {quantity(len(plan.arms) - 1, 'baseline')}"
        raise SpecError(f"baseline={state.baseline} of the address is not valid: {there}")
