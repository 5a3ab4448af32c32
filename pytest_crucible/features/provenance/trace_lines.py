"""The lines of `crucible trace`: each timeline below its heading, its steps numbered, with their times and texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_crucible.features.provenance.timeline import Step, Timeline
from pytest_crucible.features.provenance.timeline_text import (
    CALLS,
    call_ends,
    find_start,
    heading,
    step_text,
    time_text,
)
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.stats.number_format import quantity

_NUMBER, _TIME, _NAME = 3, 10, 10
_INDENT = " " * (_NUMBER + 2 + _TIME + 2)
# Characters of a text that are shown where the terminal is narrow.
_SHORTEST = 20


@dataclass(frozen=True, slots=True)
class TextLayout:
    """The room for texts on the terminal."""

    width: int
    """Columns of the terminal."""
    is_whole: bool = False
    """Whether texts are shown whole, on as many lines as they have."""


def trace_lines(timelines: Sequence[Timeline], layout: TextLayout) -> Iterator[str]:
    """Yield the lines of timelines, with an empty one between them."""
    for place, timeline in enumerate(timelines):
        yield from ([""] if place else [])
        yield heading(timeline)
        yield from filter(None, [timeline.unknown])
        yield from _step_lines(timeline, layout)


def _step_lines(timeline: Timeline, layout: TextLayout) -> Iterator[str]:
    start, ends = find_start(timeline.steps), call_ends(timeline.steps)
    before: list[Any] = []
    call: int | None = None
    for place, step in enumerate(timeline.steps):
        yield f"{place + 1:>{_NUMBER}}  {time_text(step, start):>{_TIME}}  {_title(step, call)}"
        call = step.call
        if step.kind in CALLS:
            messages = _as_messages(step.facts.get("prompt"))
            yield from _prompt_lines(messages, before, layout)
            before = messages if step.kind == "call" else before
            parameters = {**timeline.parameters, **(step.facts.get("parameters") or {})}
            yield from _named_text("parameters", _pairs(parameters), layout)
        if place in ends:
            yield from _reply_lines(ends[place], layout)
    yield from _scored_reply(timeline.steps, layout)


def _title(step: Step, call: int | None) -> str:
    """Return a step's title; of one within a call with the call, where the line above belongs to another."""
    title = printable_cell(step_text(step))
    if step.call is None or step.kind in CALLS:
        return title
    return f"  {title}" + ("" if step.call == call else f" (call {step.call})")


def _pairs(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def _as_messages(prompt: Any) -> list[Any]:
    if isinstance(prompt, list) and all(isinstance(message, Mapping) for message in prompt):
        return prompt
    return [] if prompt is None else [{"role": "prompt", "content": prompt}]


def _prompt_lines(messages: Sequence[Any], before: Sequence[Any], layout: TextLayout) -> Iterator[str]:
    """Yield the messages that were not sent before: each call sends the whole conversation again."""
    repeated = len(before) if before and messages[: len(before)] == before else 0
    if repeated:
        yield from _named_text("", f"({quantity(repeated, 'message')} as before)", layout)
    for message in messages[repeated:]:
        rest = {name: value for name, value in message.items() if name not in ("role", "content")}
        content = message.get("content")
        if content is not None or not rest:
            yield from _named_text(str(message.get("role", "message")), content, layout)
        if rest:
            yield from _named_text("", rest, layout)


def _reply_lines(call: Step, layout: TextLayout) -> Iterator[str]:
    yield from _named_text("reasoning", call.facts.get("reasoning") or "", layout)
    if call.facts.get("reply") is None:
        yield from _named_text("no reply", call.facts.get("error") or "", layout)
    else:
        yield from _named_text("reply", call.facts["reply"] or "(empty)", layout)


def _scored_reply(steps: Sequence[Step], layout: TextLayout) -> Iterator[str]:
    """Yield the text that was scored, where it is the reply of no call: one that the test made, or of an unknown call."""
    replies = [step.facts.get("reply") for step in steps if step.kind in CALLS]
    for step in steps:
        if step.kind == "end" and step.facts.get("reply") and step.facts["reply"] not in replies:
            yield from _named_text("scored", step.facts["reply"], layout)


def _named_text(name: str, value: Any, layout: TextLayout) -> Iterator[str]:
    """Yield a text behind its name: whole, or one line of it with its length. Nothing for an empty text."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    head = f"{_INDENT}{printable_cell(name):<{_NAME}} "
    if not text:
        return
    if layout.is_whole:
        first, *more = text.splitlines() or [""]
        yield f"{head}{first}"
        yield from (f"{' ' * len(head)}{line}" for line in more)
    else:
        yield f"{head}{_cut(text, max(_SHORTEST, layout.width - len(head)))}"


def _cut(text: str, room: int) -> str:
    """Return a text on one line, cut with its length where it is longer than `room`.

    >>> _cut("one\\ntwo", 20), _cut("a" * 100, 40)
    ('one two', 'aaaaaaaaaaaaaaaaaaaaaa... (100 characters)')
    """
    # No more than a few lines of a text of 1 MB are read.
    line = printable(" ".join(text[: 4 * room].split()), 5 * room)
    if len(line) <= room and len(text) <= 4 * room:
        return line
    length = f"... ({quantity(len(text), 'character')})"
    return f"{line[: room - len(length)]}{length}"
