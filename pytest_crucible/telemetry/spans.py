"""A run as OpenTelemetry spans (run, experiment, sample, request), by the tracer provider that the user has configured.

Names are those of the semantic conventions for generative AI where they have one; all others begin with `crucible.`.
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
from pytest_crucible.telemetry.attributes import flat, request_attributes, response_attributes, where

Attached = tuple[Span, Token[context.Context]]
Unit = tuple[str, str, str, int]
"""Experiment, arm, sample, epoch."""
_REQUEST: ContextVar[Attached | None] = ContextVar("crucible_request", default=None)
_SAMPLE: ContextVar[Attached | None] = ContextVar("crucible_sample", default=None)
"""The open span of the task that tells: start and stop are told by the same one, so that nothing needs to be looked up."""


@dataclass(slots=True)
class _Sample:
    span: Span
    asked: Mapping[str, Any]
    """Attributes of each of its requests."""


@dataclass
class Spans:
    """An Emit. While a sample or a request is open it is the current span of its task, so that others' spans are within it."""

    run: str
    tracer: trace.Tracer
    _experiments: dict[str, Span] = field(default_factory=dict)
    _samples: dict[Unit, _Sample] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root = self.tracer.start_span("crucible run", attributes={"crucible.run": self.run})
        self._told: Mapping[str, Callable[[Event], None]] = {
            "experiment.start": self._begin_experiment,
            "experiment.stop": self._end_experiment,
            "sample.start": self._begin_sample,
            "sample.stop": self._end_sample,
            "request.start": self._begin_request,
            "request.stop": self._end_request,
            "train.step": lambda event: None,  # so many that they are measured, and no spans
        }

    def __call__(self, event: Event) -> None:
        self._told.get(event.name, self._note)(event)

    def close(self) -> None:
        """End what is open, the run last. Idempotent."""
        for span in (*(one.span for one in self._samples.values()), *self._experiments.values(), self._root):
            span.end()
        self._samples.clear()
        self._experiments.clear()

    # -- experiments and samples ----------------------------------------------------------------------------------

    def _begin_experiment(self, event: Event) -> None:
        span = self.tracer.start_span(
            f"experiment {event.experiment}",
            context=trace.set_span_in_context(self._root),
            start_time=_nanoseconds(event),
            attributes={"crucible.run": self.run, "crucible.experiment": event.experiment, **flat(event.facts)},
        )
        self._experiments[event.experiment] = span

    def _end_experiment(self, event: Event) -> None:
        span = self._experiments.pop(event.experiment, None)
        if span is not None:
            span.end(_nanoseconds(event))

    def _begin_sample(self, event: Event) -> None:
        parent = self._experiments.get(event.experiment, self._root)
        attributes = {"crucible.run": self.run, **where(event)}
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
        if self._samples.pop(_unit(event), None) is None or span is None:  # it goes on after the session
            return
        span.set_attributes({f"crucible.{name}": value for name, value in flat(event.facts).items()})
        if event.facts.get("outcome") == "lost":
            span.set_status(Status(StatusCode.ERROR, str(event.facts.get("reason"))))
        span.end(_nanoseconds(event))

    # -- requests -------------------------------------------------------------------------------------------------

    def _begin_request(self, event: Event) -> None:
        sample = self._samples.get(_unit(event))
        asked = request_attributes(event) if sample is None else {**sample.asked, **response_attributes(event)}
        span = self.tracer.start_span(
            f"{asked['gen_ai.operation.name']} {asked['gen_ai.request.model']}",
            context=self._within(sample),
            kind=SpanKind.CLIENT,
            start_time=_nanoseconds(event),
            attributes={"crucible.run": self.run, **where(event), **asked},
        )
        _REQUEST.set((span, context.attach(trace.set_span_in_context(span))))

    def _within(self, sample: _Sample | None) -> context.Context:
        """The sample's span, or the span that the test function has opened within it."""
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
        if error is not None and error != "cancelled":  # who loses to a hedge has not failed
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end(_nanoseconds(event))

    def _note(self, event: Event) -> None:
        """What else happens to a sample is an event of its span; what happens to none, of the run's."""
        sample = self._samples.get(_unit(event))
        told = flat(event.facts) if event.seconds is None else {"seconds": event.seconds, **flat(event.facts)}
        (self._root if sample is None else sample.span).add_event(event.name, told, _nanoseconds(event))


def _detach(variable: ContextVar[Attached | None]) -> Span | None:
    """The span that this task has open, which is then no longer its current one."""
    open_one = variable.get()
    if open_one is None:
        return None
    variable.set(None)
    context.detach(open_one[1])
    return open_one[0]


def _unit(event: Event) -> Unit:
    return event.experiment, event.arm, event.sample, event.epoch


def _nanoseconds(event: Event) -> int:
    return round(event.at * 1e9)
