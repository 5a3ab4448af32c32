"""The page `/runs/RUN/samples/EXPERIMENT/POSITION`: one sample, its replies side by side, and two of them compared by word."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pytest_crucible.features.view.addresses import parse_number
from pytest_crucible.features.view.pages.respond import page, site_of
from pytest_crucible.features.view.sample_replies import SampleReplies
from pytest_crucible.features.view.sample_texts import shown_text, text_parts
from pytest_crucible.features.view.samples.select import read_state
from pytest_crucible.records import View, experiment_name
from pytest_crucible.records.errors import SpecError
from pytest_crucible.report.printable import printable
from pytest_crucible.runs.plugins import program_plugins
from pytest_crucible.stats.number_format import quantity
from pytest_crucible.store.calls import unknown_calls
from pytest_crucible.store.samples import samples


def sample_page(request: Request, run: str) -> Response:
    """Return the page of one sample."""
    store = site_of(request).store
    replies = find_sample(request, run)
    sample_id = str(replies.sample["sample_id"])
    return page(
        request,
        "sample.html.j2",
        run_id=run,
        is_finished=store.run(run)["finished"] is not None,
        experiment=int(request.path_params["experiment"]),
        name=experiment_name(replies.plan.nodeid),
        replies=replies,
        arms=replies.arms(),
        list_state=_list_state(request),
        unknown_calls=unknown_calls(store, run),
        commands=list(_commands(run, sample_id)),
        parts=partial(text_parts, hide=site_of(request).hide),
    )


def views_part(request: Request, run: str) -> Response:
    """Return what features say of the replies that the address chooses, such as their time lines."""
    return page(request, "sample_views.html.j2", views=sample_views(run, find_sample(request, run)), many=False)


def sample_views(run: str, replies: SampleReplies) -> list[View]:
    """Return what features show of the chosen replies."""
    conversations = replies.select_conversations()
    views = program_plugins().hook.pytest_crucible_sample_views(
        store=replies.store,
        run=run,
        experiment=replies.key,
        plan=replies.plan,
        position=replies.position,
        conversations=conversations,
    )
    # pluggy calls the last plugin first.
    return [view for of_feature in reversed(views) for view in of_feature] if conversations else []


def text_page(request: Request, run: str) -> Response:
    """Return one text of a sample, as its page has it."""
    value = find_sample(request, run).text(request.query_params.get("of", ""))
    if value is None:
        raise SpecError("this sample has no such text: choose one on its page")
    return PlainTextResponse(shown_text(value, site_of(request).hide))


def find_sample(request: Request, run: str) -> SampleReplies:
    """Return the sample of an address. Raises SpecError."""
    store = site_of(request).store
    experiments = store.all_experiments(run)
    number = parse_number(request.path_params["experiment"], 1, len(experiments))
    if number is None:
        there = quantity(len(experiments), "experiment")
        raise SpecError(f"run {run} has no such experiment: it has {there}, numbered from 1")
    key, plan, _ = experiments[number - 1]
    position = parse_number(request.path_params["position"], 0)
    if position is None or not samples(store, plan.dataset_sha256, [position]):
        there = quantity(plan.selected, "sample")
        raise SpecError(f"experiment {number} of run {run} has no such sample: it has {there}, numbered from 0")
    return _choose(SampleReplies(store, key, plan, position), request)


def _choose(replies: SampleReplies, request: Request) -> SampleReplies:
    """Return the sample with the variant and draw of an address, or the first ones where it has no such."""
    variant, draw = (parse_number(request.query_params.get(name, ""), 0) or 0 for name in ("variant", "draw"))
    most = max(replies.plan.draws(number).size for number in range(len(replies.plan.arms)))
    return replace(
        replies,
        variant=variant if variant <= len(replies.plan.variants) else 0,
        draw=draw if draw < most else 0,
    )


def _list_state(request: Request) -> dict[str, str | int]:
    """Return the state of the list from which the page was opened; empty where the address has none that is valid."""
    try:
        return read_state(request.query_params).query()
    except SpecError:
        return {}


def _commands(run: str, sample: str) -> Iterator[str]:
    """Yield the commands that show the same in a terminal; none for an id that cannot be copied as it is."""
    if printable(sample) == sample and "\n" not in sample:
        yield f"crucible show {run} --sample {shlex.quote(sample)}"
        yield f"crucible trace {run} {shlex.quote(sample)}"
