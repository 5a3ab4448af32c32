"""Timelines as Mermaid diagrams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pytest_crucible.features.provenance.exports.mermaid import (
    MOST_ARROWS,
    MOST_CHARACTERS,
    Arrow,
    Box,
    render_flowchart,
    render_sequence,
    render_timeline,
)
from pytest_crucible.features.provenance.exports.steps import first_steps
from pytest_crucible.features.provenance.timeline import (
    CALLS,
    Step,
    Timeline,
    call_ends,
    find_start,
    heading,
    step_text,
    time_text,
    unknown_text,
)
from pytest_crucible.records import JUDGE
from pytest_crucible.report.conversations import tool_texts
from pytest_crucible.stats.number_format import quantity


def draw_timelines(timelines: Sequence[Timeline], style: str) -> str:
    """Return a diagram of this style. Steps for which Mermaid has no room are left out, and counted in the diagram."""
    with_unknown = [_begin_with_unknown(timeline) for timeline in timelines]
    most = MOST_ARROWS // 2
    while _is_too_large(text := STYLES[style](first_steps(with_unknown, most))) and most > 1:
        most //= 2
    return text


def _is_too_large(text: str) -> bool:
    # No text of a step contains an arrow: `>` is escaped.
    return len(text) > MOST_CHARACTERS or text.count("-->") > MOST_ARROWS


def _begin_with_unknown(timeline: Timeline) -> Timeline:
    if not timeline.unknown:
        return timeline
    return replace(timeline, steps=(Step(kind="stage", title=unknown_text(timeline)), *timeline.steps))


def _flowchart(timelines: Sequence[Timeline]) -> str:
    groups, arrows = [], []
    for place, timeline in enumerate(timelines):
        boxes = _boxes(timeline, place)
        groups.append((heading(timeline), boxes))
        arrows += [Arrow(box.key, following.key) for box, following in pairwise(boxes)]
    return render_flowchart(groups, arrows)


def _boxes(timeline: Timeline, place: int) -> list[Box]:
    start = find_start(timeline.steps)
    texts = [f"{time_text(step, start)} {step_text(step)}" for step in timeline.steps]
    return [
        Box(key=f"{place} {number}", text=text, shape=_shape(step))
        for number, (text, step) in enumerate(zip(texts, timeline.steps, strict=True))
    ]


def _shape(step: Step) -> str:
    if step.is_claim:
        return "claim"
    return "error" if step.facts.get("error") else "step"


def _graph(timelines: Sequence[Timeline]) -> str:
    groups, arrows = [], []
    for place, timeline in enumerate(timelines):
        root = Box(key=f"{place}", text=heading(timeline), shape="entity")
        groups.append(("", [root, *_boxes(timeline, place)]))
        arrows += [
            Arrow(f"{place} {parent}" if parent is not None else root.key, f"{place} {number}", text)
            for number, (parent, text) in enumerate(_parents(timeline.steps))
        ]
    return render_flowchart(groups, arrows, direction="LR", word="graph")


def _parents(steps: Sequence[Step]) -> Iterator[tuple[int | None, str]]:
    """Yield for each step the position of the step that it belongs to, None for none, and how."""
    calls: dict[tuple[int | None, str], int] = {}
    decisions: dict[int, int] = {}
    for position, step in enumerate(steps):
        revised = decisions.get(step.facts.get("revises") or 0)
        within = decisions.get(step.facts.get("parent") or 0)
        if step.kind == "decision":
            decisions[step.facts.get("number") or 0] = position
            yield (revised, "revised") if revised is not None else (within, "")
        elif step.kind in CALLS:
            # The part of a member belongs to the call that the test sent.
            yield (calls.get((step.call, "")) if step.member else None), ""
            calls[step.call, step.member] = position
        else:
            yield calls.get((step.call, step.member), calls.get((step.call, ""))), ""


# Names that no adapter has: one called `test` stays apart.
TEST, METRICS = "the test", "the metrics"


def _sequence(timelines: Sequence[Timeline]) -> str:
    messages = [message for timeline in timelines for message in _messages(timeline, len(timelines) > 1)]
    actors = dict.fromkeys(actor for message in messages for actor in (message.source, message.target))
    return render_sequence([TEST, *(actor for actor in actors if actor != TEST)], messages, title=_title(timelines))


def _title(timelines: Sequence[Timeline]) -> str:
    return heading(timelines[0]) if len(timelines) == 1 else quantity(len(timelines), "timeline")


def _messages(timeline: Timeline, is_one_of_several: bool) -> Iterator[Arrow]:
    if is_one_of_several:
        yield Arrow(TEST, TEST, heading(timeline))
    ends = call_ends(timeline.steps)
    for place, step in enumerate(timeline.steps):
        actor = step.member or timeline.arm
        if step.kind in CALLS:
            yield Arrow(_sender(step, timeline), actor, step_text(step))
        elif step.kind in ("score", "decision", "stage", "end"):
            own = METRICS if step.kind == "score" else timeline.arm if step.is_claim else TEST
            yield Arrow(own, own, step_text(step))
        else:
            yield Arrow(actor, actor, step_text(step))
        if place in ends:
            yield from _reply(ends[place], actor, _sender(ends[place], timeline))


def _sender(call: Step, timeline: Timeline) -> str:
    """Return which actor sends a call: the test, its arm to the members of an ensemble, or the metrics to a judge."""
    if call.kind == "member":
        return timeline.arm
    return METRICS if call.member.startswith(JUDGE) else TEST


def _reply(call: Step, actor: str, target: str) -> Iterator[Arrow]:
    reply = call.facts.get("reply")
    tools = list(tool_texts(call.facts.get("tool_calls")))
    if reply is not None and (reply or not tools):
        yield Arrow(actor, target, str(reply), is_reply=True)
    if reply is not None:
        yield from (Arrow(actor, target, f"tool call: {tool}", is_reply=True) for tool in tools)
    elif call.facts.get("error"):
        yield Arrow(actor, target, f"no reply: {call.facts['error']}", is_reply=True)


def _timeline(timelines: Sequence[Timeline]) -> str:
    sections = []
    for timeline in timelines:
        start = find_start(timeline.steps)
        events = [(time_text(step, start) or step.kind, step_text(step)) for step in timeline.steps]
        sections.append((heading(timeline), events))
    return render_timeline(sections, title=_title(timelines))


STYLES: Mapping[str, Callable[[Sequence[Timeline]], str]] = {
    "flowchart": _flowchart,
    "sequence": _sequence,
    "timeline": _timeline,
    "graph": _graph,
}
