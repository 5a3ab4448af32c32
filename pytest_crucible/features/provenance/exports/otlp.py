"""Timelines as spans in OTLP's JSON encoding, as `--crucible-otel` sends them.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-events.md
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from typing import Any

from pytest_crucible.features.provenance.exports.steps import step_times
from pytest_crucible.features.provenance.timeline import CALLS, Step, Timeline
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import HELPERS, Event
from pytest_crucible.telemetry.attributes import (
    SCOPE,
    flatten,
    request_attributes,
    response_attributes,
    unit_attributes,
)

_INTERNAL, _CLIENT, _ERROR = 1, 3, 2
_EVENTS = {"wait": "limiter.wait", "retry": "request.retry", "hedge": "hedge.fired", "cached": "cache.hit"}
# Facts of steps that events name otherwise.
_EVENT_FACTS = {"usd": "cost_usd"}
Json = dict[str, Any]


def otlp_document(timelines: Sequence[Timeline]) -> Json:
    """Return an `ExportTraceServiceRequest`: a span for the run, each experiment, sample and request.

    Scores are events `gen_ai.evaluation.result` of the sample. Ids are hashes of run, sample and step: equal in each export.
    """
    scope = {"name": SCOPE, "version": version("pytest-crucible")}
    resource = {"attributes": _attributes({"service.name": "pytest-crucible"})}
    spans = [span for run, some in groupby(timelines, lambda each: each.run) for span in _run_spans(run, list(some))]
    scopes = [{"scope": scope, "spans": spans}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}


@dataclass(frozen=True, slots=True)
class _Place:
    """The ids of a span: hashes of its path from the run down."""

    path: tuple[Any, ...]

    def within(self, *names: Any) -> _Place:
        return _Place((*self.path, *names))

    def span_id(self) -> str:
        return hashlib.sha256(json.dumps(self.path).encode()).hexdigest()[:16]

    def ids(self, parent: _Place | None) -> Json:
        trace = hashlib.sha256(json.dumps(self.path[:1]).encode()).hexdigest()[:32]
        above = {} if parent is None else {"parentSpanId": parent.span_id()}
        return {"traceId": trace, "spanId": self.span_id(), **above}


def _run_spans(run: str, timelines: Sequence[Timeline]) -> Iterator[Json]:
    root = _Place((run,))
    yield _outer_span(root, None, "crucible run", {"crucible.run": run}, timelines)
    for experiment, some in groupby(timelines, lambda each: each.experiment):
        place, own = root.within(experiment), list(some)
        attributes = {"crucible.run": run, "crucible.experiment": experiment}
        yield _outer_span(place, root, f"experiment {experiment}", attributes, own)
        for timeline in own:
            yield from _sample_spans(timeline, place)


def _outer_span(
    place: _Place, parent: _Place | None, name: str, attributes: Mapping[str, Any], timelines: Sequence[Timeline]
) -> Json:
    """Return a span that lasts from the first to the last of the exported steps, for more is not known of it."""
    bounds = [bound for timeline in timelines for bound in _bounds(timeline)]
    times = {"startTimeUnixNano": _nanoseconds(min(bounds)), "endTimeUnixNano": _nanoseconds(max(bounds))}
    return {**place.ids(parent), "name": name, "kind": _INTERNAL, **times, "attributes": _attributes(attributes)}


def _bounds(timeline: Timeline) -> tuple[float, float]:
    times = step_times(timeline.steps)
    starts = [at - (step.seconds or 0.0) for at, step in zip(times, timeline.steps, strict=True)]
    return min(starts, default=0.0), max(times, default=0.0)


def _sample_spans(timeline: Timeline, parent: _Place) -> Iterator[Json]:
    place = parent.within(timeline.arm, timeline.sample, timeline.repeat, timeline.variant)
    times = step_times(timeline.steps)
    start, end = _bounds(timeline)
    outcome = _outcome(timeline)
    texts = {"variant": timeline.variant, "unknown": timeline.unknown}
    own = {f"crucible.{name}": text for name, text in texts.items() if text}
    attributes = {"crucible.run": timeline.run, **unit_attributes(_event(timeline)), **own, **outcome}
    lost = outcome.get("crucible.outcome") == "lost"
    yield {
        **place.ids(parent),
        "name": f"sample {timeline.sample}",
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(start),
        "endTimeUnixNano": _nanoseconds(end),
        "attributes": _attributes(attributes),
        "events": [
            {"timeUnixNano": _nanoseconds(at), "name": name, "attributes": _attributes(facts)}
            for at, step in zip(times, timeline.steps, strict=True)
            for name, facts in _span_event(timeline, step)
        ],
        **(_error(str(outcome.get("crucible.reason"))) if lost else {}),
    }
    for number, (at, step) in enumerate(zip(times, timeline.steps, strict=True), start=1):
        if step.kind == "request":
            yield _request_span(timeline, step, at, place.within(number), place)


def _outcome(timeline: Timeline) -> Json:
    end = next((step.facts for step in timeline.steps if step.kind == "end"), {})
    state = end.get("state")
    reason = end.get("detail") if state in ("lost", "failed") else None
    return {f"crucible.{name}": value for name, value in (("outcome", state), ("reason", reason)) if value}


def _request_span(timeline: Timeline, step: Step, at: float, place: _Place, parent: _Place) -> Json:
    event = _event(timeline, step)
    attributes = {**request_attributes(event), **response_attributes(event)}
    numbers = {"call": step.call, "request": step.request, "member": step.member or None}
    own = {f"crucible.{name}": value for name, value in numbers.items() if value is not None}
    error = step.facts.get("error")
    return {
        **place.ids(parent),
        "name": f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}",
        "kind": _CLIENT,
        "startTimeUnixNano": _nanoseconds(at - (step.seconds or 0.0)),
        "endTimeUnixNano": _nanoseconds(at),
        "attributes": _attributes({"crucible.run": timeline.run, **unit_attributes(event), **attributes, **own}),
        # A request that lost to its hedge was cancelled, but did not fail.
        **(_error(str(error)) if error not in (None, "cancelled") else {}),
    }


def _event(timeline: Timeline, step: Step | None = None) -> Event:
    """Return the event that a session emitted for the sample, or for a request of it."""
    # Judges and their like are no adapters of the plan: their name is all that is stored.
    is_helper = step is not None and step.member.startswith(HELPERS)
    settings = {} if is_helper else {"adapter": timeline.adapter, "parameters": timeline.parameters}
    own = {} if step is None else {_EVENT_FACTS.get(name, name): value for name, value in step.facts.items()}
    return Event(
        name="sample.start" if step is None else "request.stop",
        at=0.0,
        experiment=timeline.experiment,
        arm=step.member if step is not None and is_helper else timeline.arm,
        sample=timeline.sample,
        repeat=timeline.repeat,
        facts={**settings, **own},
    )


def _span_event(timeline: Timeline, step: Step) -> Iterator[tuple[str, Json]]:
    """Yield the event of a step with its attributes; nothing for a request, which has a span, and for the end."""
    if step.kind == "score":
        yield "gen_ai.evaluation.result", _score(step)
    elif step.kind in CALLS:
        yield "gen_ai.client.inference.operation.details", _content(timeline, step)
    elif step.kind in ("decision", "stage"):
        yield f"crucible.{step.kind}", {"is_claim": step.is_claim, **flatten(step.facts)}
    elif step.kind not in ("request", "end"):
        facts = {name: value for name, value in step.facts.items() if name != "event"}
        seconds = {} if step.seconds is None else {"seconds": step.seconds}
        yield str(step.facts.get("event", _EVENTS.get(step.kind, step.kind))), {**seconds, **flatten(facts)}


def _score(step: Step) -> Json:
    """Return the attributes of a score. A metric that does not apply has no value, and neither has a text."""
    value = step.facts.get("value")
    named = {"gen_ai.evaluation.name": str(step.facts.get("metric", step.title))}
    if value is None:
        return {**named, "gen_ai.evaluation.score.label": "lost" if step.facts.get("lost") else "not applicable"}
    if isinstance(value, str):
        return {**named, "gen_ai.evaluation.score.label": value}
    label = {"gen_ai.evaluation.score.label": str(value).lower()} if isinstance(value, bool) else {}
    return {**named, "gen_ai.evaluation.score.value": float(value), **label}


def _content(timeline: Timeline, step: Step) -> Json:
    prompt, reply = step.facts.get("prompt"), step.facts.get("reply")
    messages = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
    content = {"gen_ai.input.messages": json.dumps([_message(message) for message in messages])}
    if reply is not None:
        reasoning = step.facts.get("reasoning")
        parts = [{"type": "reasoning", "content": reasoning}] if reasoning else []
        called = [*map(_tool_call, step.facts.get("tool_calls") or ())]
        text = [{"type": "text", "content": reply}] if reply or not called else []
        answer = {"role": "assistant", "parts": [*parts, *text, *called]}
        content["gen_ai.output.messages"] = json.dumps([answer])
    if step.facts.get("error"):
        content["error.type"] = str(step.facts["error"])
    own = {"parameters": step.facts.get("parameters")}
    event = _event(timeline, Step(kind="call", title="", member=step.member, facts=own))
    return {**request_attributes(event), **content}


def _message(message: Any) -> Json:
    if not isinstance(message, Mapping):
        return {"role": "user", "parts": [{"type": "text", "content": message}]}
    content, called = message.get("content"), [*map(_tool_call, message.get("tool_calls") or ())]
    if message.get("role") == "tool":
        parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}]
    else:
        parts = content if isinstance(content, list) else [{"type": "text", "content": content}]
    return {"role": message.get("role", "user"), "parts": [*(parts if content or not called else []), *called]}


def _tool_call(call: Any) -> Json:
    """Return the part for a tool call. https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans"""
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        return {"type": "tool_call", "arguments": call}
    arguments = call["function"].get("arguments")
    with contextlib.suppress(ValueError, TypeError):
        arguments = json.loads(arguments)
    return {"type": "tool_call", "id": call.get("id"), "name": call["function"].get("name"), "arguments": arguments}


def _error(message: str) -> Json:
    return {"status": {"code": _ERROR, "message": message}}


def _attributes(facts: Mapping[str, Any]) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in flatten(facts).items()]


def _value(value: Any) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and abs(value) < 2**63:
        # JSON numbers are floats to many readers: the encoding has 64 bit integers as texts.
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _INFINITIES.get(value, "NaN")}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}


_INFINITIES = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _nanoseconds(at: float) -> str:
    return str(round(at * 1e9))
