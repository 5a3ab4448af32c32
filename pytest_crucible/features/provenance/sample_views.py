"""Views of the time line of each reply to a sample: bars over one scale of seconds, and a table of the steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.features.provenance.load_timeline import experiment_timelines
from pytest_crucible.features.provenance.step_texts import step_texts
from pytest_crucible.features.provenance.timeline import (
    Step,
    Timeline,
    find_start,
    heading,
    step_text,
    time_text,
    unknown_text,
)
from pytest_crucible.records import Conversation, Note, Plan, Row, Table, View
from pytest_crucible.records.views import Span, TimeBars
from pytest_crucible.stats.number_format import quantity, seconds
from pytest_crucible.store.runs import RunStore

# Steps of a reply on a page; `crucible trace` has all.
MOST_STEPS = 500
_HEADS = ("step", "kind", "over at", "took")
# Texts of a decision, which the page of a sample has nowhere else; prompts and replies stand beside the time line.
_OF_DECISIONS = ("decision", "instead of", "over", "because")


def sample_views(
    store: RunStore, run: str, experiment: int, plan: Plan, position: int, conversations: Sequence[Conversation]
) -> Iterator[View]:
    """Yield a view of the time line of each conversation."""
    replies = {(each.arm, each.unit) for each in conversations}
    for unit, timeline in experiment_timelines(store, run, experiment, plan, position):
        if (timeline.arm, unit) in replies:
            yield timeline_view(timeline)


def timeline_view(timeline: Timeline) -> View:
    """Return the picture and the table of a time line."""
    title = f"Time line: {heading(timeline, within_sample=True)}"
    unknown = unknown_text(timeline)
    steps = timeline.steps[:MOST_STEPS]
    return View(
        title=title,
        notes=(Note(text=unknown),) if unknown else (),
        tables=(_step_table(title, steps, len(timeline.steps)),),
        time_bars=tuple(bars for bars in [_time_bars(title, steps)] if bars.spans),
    )


def _step_table(title: str, steps: Sequence[Step], total: int) -> Table:
    start = find_start(steps)
    rows = [
        Row(
            cells=(step_text(step), step.kind, time_text(step, start) or "-", _duration(step)),
            below="; ".join(f"{text.name}: {text.value}" for text in texts if text.name in _OF_DECISIONS),
        )
        for step, texts in zip(steps, step_texts(steps), strict=True)
    ]
    left = total - len(rows)
    return Table(
        title=f"{title}, step by step",
        heads=_HEADS,
        rows=tuple(rows),
        numbers=_HEADS[2:],
        note=f"{quantity(left, 'more step')}, which `crucible trace` prints." if left else "",
        # Without times it repeats the scores.
        verbosity=0 if start is not None else 1,
    )


def _duration(step: Step) -> str:
    return "-" if step.seconds is None else seconds(step.seconds)


def _time_bars(title: str, steps: Sequence[Step]) -> TimeBars:
    start = find_start(steps) or 0.0
    spans = (
        Span(
            lane=_lane(step),
            label=step_text(step),
            start=step.at - (step.seconds or 0.0) - start,
            end=step.at - start,
        )
        for step in steps
        if step.at is not None
    )
    return TimeBars(title=title, spans=tuple(spans))


def _lane(step: Step) -> str:
    """Return where a step is drawn: hedged requests of one call overlap, and have a lane each."""
    kind = f"request {step.request}" if step.kind == "request" and step.request else step.kind
    call = f"call {step.call}" if step.call else ""
    return ", ".join(part for part in (call, step.member, kind) if part)
