"""OpenTelemetry spans of a run (run, experiment, sample, request), through the tracer provider that the user has configured.

Names follow the semantic conventions for generative AI; names that the conventions lack begin with `crucible.`.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from pytest_crucible.records import Event
from pytest_crucible.telemetry.attributes import flatten, request_attributes, response_attributes, unit_attributes

Attached = tuple[Span, Token[context.Context]]
Unit = tuple[str, str, str, int]
"""Experiment, arm, sample, repeat."""
_REQUEST: ContextVar[Attached | None] = ContextVar("crucible_request", default=None)
_SAMPLE: ContextVar[Attached | None] = ContextVar("crucible_sample", default=None)
"""The open span of the current task. Start and stop are emitted by the same task, so no lookup is needed."""


@dataclass(slots=True)
class _Sample:
    span: Span
    request_attributes: Mapping[str, Any]
    """The attributes of each of the sample's requests."""


@dataclass
class Spans:
    """A listener that creates spans. An open sample or request is the current span of its task, the parent of user spans."""

    run: str
    tracer: trace.Tracer
    _experiments: dict[str, Span] = field(default_factory=dict)
    _samples: dict[Unit, _Sample] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root = self.tracer.start_span("crucible run", attributes={"crucible.run": self.run})
        self._handlers: Mapping[str, Callable[[Event], None]] = {
            "experiment.start": self._begin_experiment,
            "experiment.stop": self._end_experiment,
            "sample.start": self._begin_sample,
            "sample.stop": self._end_sample,
            "request.start": self._begin_request,
            "request.stop": self._end_request,
            # Training steps are too many for span events; `Instruments` records their loss.
            "train.step": lambda event: None,
        }

    def __call__(self, event: Event) -> None:
        self._handlers.get(event.name, self._note)(event)

    def close(self) -> None:
        """End all open spans, the run's last. Idempotent."""
        for span in (*(sample.span for sample in self._samples.values()), *self._experiments.values(), self._root):
            span.end()
        self._samples.clear()
        self._experiments.clear()

    # -- experiments and samples ----------------------------------------------------------------------------------

    def _begin_experiment(self, event: Event) -> None:
        span = self.tracer.start_span(
            f"experiment {event.experiment}",
            context=trace.set_span_in_context(self._root),
            start_time=_nanoseconds(event),
            attributes={"crucible.run": self.run, "crucible.experiment": event.experiment, **flatten(event.facts)},
        )
        self._experiments[event.experiment] = span

    def _end_experiment(self, event: Event) -> None:
        span = self._experiments.pop(event.experiment, None)
        if span is not None:
            span.end(_nanoseconds(event))

    def _begin_sample(self, event: Event) -> None:
        parent = self._experiments.get(event.experiment, self._root)
        attributes = {"crucible.run": self.run, **unit_attributes(event)}
        span = self.tracer.start_span(
            f"sample {event.sample}",
            context=trace.set_span_in_context(parent),
            start_time=_nanoseconds(event),
            attributes=attributes,
        )
        self._samples[_unit(event)] = _Sample(span, request_attributes(event))
        _SAMPLE.set((span, context.attach(trace.set_span_in_context(span))))

    def _end_sample(self, event: Event) -> None:
        span = _detach(_SAMPLE)
        # A sample that outlives the session has no open span any more.
        if self._samples.pop(_unit(event), None) is None or span is None:
            return
        span.set_attributes({f"crucible.{name}": value for name, value in flatten(event.facts).items()})
        if event.facts.get("outcome") == "lost":
            span.set_status(Status(StatusCode.ERROR, str(event.facts.get("reason"))))
        span.end(_nanoseconds(event))

    # -- requests -------------------------------------------------------------------------------------------------

    def _begin_request(self, event: Event) -> None:
        sample = self._samples.get(_unit(event))
        attributes = (
            request_attributes(event) if sample is None else {**sample.request_attributes, **response_attributes(event)}
        )
        span = self.tracer.start_span(
            f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}",
            context=self._within(sample),
            kind=SpanKind.CLIENT,
            start_time=_nanoseconds(event),
            attributes={"crucible.run": self.run, **unit_attributes(event), **attributes},
        )
        _REQUEST.set((span, context.attach(trace.set_span_in_context(span))))

    def _within(self, sample: _Sample | None) -> context.Context:
        """Return the context of the sample's span, or of the span that the test function has opened inside it."""
        current = trace.get_current_span()
        if current.is_recording() and current.get_span_context().trace_id == self._root.get_span_context().trace_id:
            return context.get_current()
        return trace.set_span_in_context(self._root if sample is None else sample.span)

    def _end_request(self, event: Event) -> None:
        span = _detach(_REQUEST)
        if span is None:
            return
        span.set_attributes(response_attributes(event))
        error = event.facts.get("error")
        # A request that lost to its hedge was cancelled, but did not fail.
        if error is not None and error != "cancelled":
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(_nanoseconds(event))

    def _note(self, event: Event) -> None:
        """Add an event to the span of its sample; without a sample, to the span of the run."""
        sample = self._samples.get(_unit(event))
        facts = flatten(event.facts) if event.seconds is None else {"seconds": event.seconds, **flatten(event.facts)}
        (self._root if sample is None else sample.span).add_event(event.name, facts, _nanoseconds(event))


def _detach(variable: ContextVar[Attached | None]) -> Span | None:
    """Return the open span of this task, after making it no longer the current span."""
    attached = variable.get()
    if attached is None:
        return None
    variable.set(None)
    context.detach(attached[1])
    return attached[0]


def _unit(event: Event) -> Unit:
    return event.experiment, event.arm, event.sample, event.repeat


def _nanoseconds(event: Event) -> int:
    return round(event.at * 1e9)
