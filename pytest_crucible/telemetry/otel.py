"""OpenTelemetry, as the user has configured it: neither a provider nor an exporter is ours.

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-metrics/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import field
from importlib.metadata import version
from typing import Any

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Event
from pytest_crucible.records.errors import SpecError
from pytest_crucible.telemetry.attributes import (
    SCOPE,
    flatten,
    request_attributes,
    response_attributes,
    unit_attributes,
)
from pytest_crucible.telemetry.listeners import redact_event

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
except ModuleNotFoundError as error:
    raise SpecError(
        'crucible_otel needs OpenTelemetry, which is not installed: pip install "pytest-crucible[otel]"'
    ) from error

# The bucket boundaries that the conventions recommend, for seconds and for tokens.
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**k for k in range(14))


class Instruments:
    def __init__(self, meter: Meter) -> None:
        def seconds(name: str, description: str) -> Any:
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_SECONDS)

        self._duration = seconds("gen_ai.client.operation.duration", "Time from sending a request to its end")
        self._first_token = seconds("gen_ai.client.operation.time_to_first_chunk", "Time to the first token")
        self._wait = seconds("crucible.limiter.wait", "Time that a request waited for a permit")
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens used", explicit_bucket_boundaries_advisory=_TOKENS
        )
        self._cost = meter.create_counter("crucible.cost", "USD", "Cost of replies with a known price")
        self._events = meter.create_counter("crucible.events", "{event}", "Number of events, by name")
        self._loss = meter.create_gauge("crucible.train.loss", "1", "Loss of the last step of a training")
        self._labels: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, event: Event) -> None:
        place = event.experiment, event.arm
        if event.name == "sample.start" and place not in self._labels:
            self._labels[place] = self._label_event(event)
        labels = self._labels.get(place) or self._label_event(event)
        if event.name == "request.stop":
            self._answer(event, labels)
        elif event.name == "limiter.wait":
            self._wait.record(event.seconds or 0.0, labels)
        elif event.name == "train.step":
            self._loss.set(event.facts["loss"], labels)
        elif not event.name.endswith(".start"):
            self._events.add(1, {**labels, "crucible.event": event.name})

    def _answer(self, event: Event, labels: dict[str, Any]) -> None:
        facts, error = event.facts, event.facts.get("error")
        ended = labels if error is None else {**labels, "error.type": str(error)}
        self._duration.record(event.seconds or 0.0, ended)
        for kind in ("input", "output"):
            if facts.get(f"{kind}_tokens") is not None:
                self._tokens.record(facts[f"{kind}_tokens"], {**labels, "gen_ai.token.type": kind})
        if facts.get("first_token_s") is not None:
            self._first_token.record(facts["first_token_s"], labels)
        if facts.get("cost_usd") is not None:
            self._cost.add(facts["cost_usd"], labels)

    def _label_event(self, event: Event) -> dict[str, Any]:
        attributes = request_attributes(event)
        labels = {
            name: attributes[name] for name in ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")
        }
        return {**labels, "crucible.experiment": event.experiment, "crucible.arm": event.arm}


Attached = tuple[Span, Token[context.Context]]
Unit = tuple[str, str, str, int]
_REQUEST: ContextVar[Attached | None] = ContextVar("crucible_request", default=None)
_SAMPLE: ContextVar[Attached | None] = ContextVar("crucible_sample", default=None)
"""The open span of the current task. Start and stop are emitted by the same task, so no lookup is needed."""


@dataclass(slots=True)
class _Sample:
    span: Span
    request_attributes: Mapping[str, Any]


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
        for span in (*(sample.span for sample in self._samples.values()), *self._experiments.values(), self._root):
            span.end()
        self._samples.clear()
        self._experiments.clear()

    def _begin_experiment(self, event: Event) -> None:
        name, attributes = event.experiment, {"crucible.experiment": event.experiment, **flatten(event.facts)}
        within = trace.set_span_in_context(self._root)
        self._experiments[name] = self._start(event, f"experiment {name}", within, attributes)

    def _end_experiment(self, event: Event) -> None:
        span = self._experiments.pop(event.experiment, None)
        if span is not None:
            span.end(_nanoseconds(event))

    def _begin_sample(self, event: Event) -> None:
        parent = self._experiments.get(event.experiment, self._root)
        span = self._start(event, f"sample {event.sample}", trace.set_span_in_context(parent), unit_attributes(event))
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

    def _begin_request(self, event: Event) -> None:
        sample = self._samples.get(_unit(event))
        attributes = (
            request_attributes(event) if sample is None else {**sample.request_attributes, **response_attributes(event)}
        )
        name = f"{attributes['gen_ai.operation.name']} {attributes['gen_ai.request.model']}"
        attributes = {**unit_attributes(event), **attributes}
        span = self._start(event, name, self._within(sample), attributes, SpanKind.CLIENT)
        _REQUEST.set((span, context.attach(trace.set_span_in_context(span))))

    def _start(
        self,
        event: Event,
        name: str,
        within: context.Context,
        attributes: Mapping[str, Any],
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        return self.tracer.start_span(
            name, within, kind, {"crucible.run": self.run, **attributes}, start_time=_nanoseconds(event)
        )

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


class OpenTelemetry:
    """A listener that creates spans and metrics of a run."""

    def __init__(self, run: str, hide: Callable[[str], str] = str) -> None:
        """`hide` redacts texts. Raises SpecError if neither a tracer provider nor a meter provider is configured."""
        tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
        if _is_placeholder(tracers) and _is_placeholder(meters):
            raise SpecError(
                "crucible_otel is set, but OpenTelemetry has neither a tracer provider nor a meter provider, so that nothing "
                "would be received: set one in pytest_configure of a conftest.py, or run opentelemetry-instrument pytest"
            )
        self._hide = hide
        own = version("pytest-crucible")
        self._spans = Spans(run, trace.get_tracer(SCOPE, own))
        self._instruments = Instruments(metrics.get_meter(SCOPE, own))

    def __call__(self, event: Event) -> None:
        event = redact_event(event, self._hide)
        self._spans(event)
        self._instruments(event)

    def close(self) -> None:
        self._spans.close()


def _is_placeholder(provider: object) -> bool:
    """Return whether this is OpenTelemetry's placeholder for a provider that was never set."""
    return type(provider).__name__.lstrip("_").startswith("Proxy")
