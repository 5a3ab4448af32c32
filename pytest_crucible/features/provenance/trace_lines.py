"""The lines of `crucible trace`: each timeline below its heading, its steps numbered, with their times and texts."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.features.provenance.step_texts import step_texts
from pytest_crucible.features.provenance.timeline import (
    CALLS,
    Step,
    Timeline,
    find_start,
    heading,
    step_text,
    time_text,
    unknown_text,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.report.printable import printable, printable_cell
from pytest_crucible.stats.number_format import quantity

_NUMBER, _TIME, _NAME = 3, 10, 10
_INDENT = " " * (_NUMBER + 2 + _TIME + 2)
# Characters of a text that are shown where the terminal is narrow.
_SHORTEST = 20
_TITLE_LINES = 3


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
        yield from filter(None, [unknown_text(timeline)])
        yield from _step_lines(timeline, layout)


def _step_lines(timeline: Timeline, layout: TextLayout) -> Iterator[str]:
    start = find_start(timeline.steps)
    call: int | None = None
    for number, (step, texts) in enumerate(zip(timeline.steps, step_texts(timeline.steps), strict=True), start=1):
        first, *more = _title_lines(step, call, layout)
        yield f"{number:>{_NUMBER}}  {time_text(step, start):>{_TIME}}  {first}"
        yield from (f"{_INDENT}{line}" for line in more)
        call = step.call
        for name, value in texts:
            yield from text_lines(name, value, layout)


def _title_lines(step: Step, call: int | None, layout: TextLayout) -> list[str]:
    """Return a step's title; of one within a call with the call, where the line above belongs to another."""
    if step.call is None or step.kind in CALLS:
        return title_lines(step, layout)
    of_call = "" if step.call == call else f" (call {step.call})"
    narrower = replace(layout, width=layout.width - len(of_call) - 2)
    first, *more = (f"  {line}" for line in title_lines(step, narrower))
    return [f"{first}{of_call}", *more]


def title_lines(step: Step, layout: TextLayout) -> list[str]:
    """Return the title of a step on one line, or on up to three: an error that is cut would not be understood."""
    text = printable_cell(step_text(step))
    room = max(_SHORTEST, layout.width - len(_INDENT))
    if layout.is_whole or len(text) <= room:
        return [text]
    return textwrap.wrap(text, room, max_lines=_TITLE_LINES, placeholder="...")


def text_lines(name: str, value: Any, layout: TextLayout) -> Iterator[str]:
    """Yield a text behind its name: whole, or one line of it with its length."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    head = f"{_INDENT}{printable_cell(name):<{_NAME}} "
    if layout.is_whole:
        first, *more = text.splitlines() or [""]
        yield f"{head}{first}"
        yield from (f"{' ' * len(head)}{line}" for line in more)
    else:
        yield f"{head}{_cut(text, max(_SHORTEST, layout.width - len(head)))}"


def _cut(text: str, room: int) -> str:
    """Return a text on one line, cut with its length where it is longer than `room`.

    >>> _cut("one\\ntwo", 20), _cut("a" * 100, 40)
    ('one two', 'aaaaaaaaaaaaaaaaaaaa... (100 characters)')
    """
    # No more than a few lines of a text of 1 MB are read.
    line = printable(" ".join(text[: 4 * room].split()), 5 * room)
    if len(line) <= room and len(text) <= 4 * room:
        return line
    length = f"... ({quantity(len(text), 'character')})"
    return f"{line[: room - len(length)]}{length}"
