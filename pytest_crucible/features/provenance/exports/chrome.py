"""Timelines as Chrome's trace events, which Perfetto and chrome://tracing show.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.features.provenance.exports.steps import step_times
from pytest_crucible.features.provenance.timeline import Step, Timeline, heading, step_text

Json = dict[str, Any]
_FIRST_LANE = 1


def chrome_document(timelines: Sequence[Timeline]) -> Json:
    """Return trace events: a process for each timeline, with threads for requests and waits at one time.

    Steps without a duration, such as decisions and scores, are instants of the first thread. Times count from the first step.
    """
    starts = [min(_start(step, at) for step, at in _pair_times(timeline)) for timeline in timelines if timeline.steps]
    zero = min(starts, default=0.0)
    events = [event for number, each in enumerate(timelines, 1) for event in _timeline_events(each, number, zero)]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _pair_times(timeline: Timeline) -> list[tuple[Step, float]]:
    return list(zip(timeline.steps, step_times(timeline.steps), strict=True))


def _start(step: Step, at: float) -> float:
    return at - (step.seconds or 0.0)


def _timeline_events(timeline: Timeline, process: int, zero: float) -> Iterator[Json]:
    yield _name("process_name", process, _FIRST_LANE, heading(timeline))
    if timeline.unknown:
        yield _name("process_labels", process, _FIRST_LANE, timeline.unknown, "labels")
    yield _name("thread_name", process, _FIRST_LANE, "steps")
    lanes: list[float] = []
    # Slices of one thread must not overlap: each goes to the first lane that is free when it begins.
    for step, at in sorted(_pair_times(timeline), key=lambda pair: _start(*pair)):
        begin = _start(step, at)
        event = {"name": step_text(step), "cat": step.kind, "pid": process, "ts": _microseconds(begin - zero)}
        facts = {"args": {"call": step.call, "request": step.request, "is_claim": step.is_claim, **step.facts}}
        if step.seconds is None:
            yield {**event, "ph": "i", "s": "t", "tid": _FIRST_LANE, **facts}
            continue
        lane = next((number for number, end in enumerate(lanes) if end <= begin), len(lanes))
        if lane == len(lanes):
            yield _name("thread_name", process, _FIRST_LANE + 1 + lane, f"requests and waits {lane + 1}")
        lanes[lane : lane + 1] = [at]
        yield {**event, "ph": "X", "dur": _microseconds(step.seconds), "tid": _FIRST_LANE + 1 + lane, **facts}


def _name(kind: str, process: int, thread: int, name: str, argument: str = "name") -> Json:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {argument: name}}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
