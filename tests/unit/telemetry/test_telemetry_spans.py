"""A run as OpenTelemetry spans and metrics, with the SDK's own in-memory exporters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, Tracer
from virtual_time import in_event_loop

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.spending import Metered
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import Retryable
from pytest_crucible.telemetry.otel import Instruments, Spans

T, U = "test_sums.py::test_sums", "test_sums.py::test_others"
ASKED = {"adapter": "openai:v2", "parameters": {"temperature": 0.5, "stop": ["\n"], "lora": 8}}


class Emitter:
    """Spans of a run, and what was exported of it."""

    def __init__(self) -> None:
        provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("a test")
        self.spans = Spans("run1", self.tracer)

    def __call__(self, name: str, at: float = 1.0, sample: str = "a", arm: str = "v2", **options: Any) -> None:
        experiment, facts = options.pop("experiment", T), options.pop("facts", {})
        if name.startswith("experiment."):
            self.spans(Event(name=name, at=at, experiment=experiment, facts=facts))
        else:
            self.spans(Event(name=name, at=at, experiment=experiment, arm=arm, sample=sample, facts=facts, **options))

    def over(self) -> dict[str, ReadableSpan]:
        """All spans by their names, after the run was closed."""
        self.spans.close()
        return {span.name: span for span in self._exporter.get_finished_spans()}


@pytest.fixture
def emitter() -> Emitter:
    return Emitter()


def parent(spans: Mapping[str, ReadableSpan], name: str) -> str:
    above = spans[name].parent
    return next(span.name for span in spans.values() if above and span.context.span_id == above.span_id)


def test_spans_are_nested(emitter):
    emitter("experiment.start", facts={"dataset": "sums", "arms": ["v2", "v1"]})
    emitter("sample.start", facts=ASKED)
    emitter("request.start", 2.0)
    emitter("request.stop", 2.5)
    emitter("sample.stop", 3.0, facts={"outcome": "answered"})
    emitter("experiment.stop", 4.0)
    spans = emitter.over()

    assert parent(spans, "chat v2") == "sample a"
    assert parent(spans, "sample a") == f"experiment {T}"
    assert parent(spans, f"experiment {T}") == "crucible run"
    assert spans["crucible run"].parent is None
    assert len({span.context.trace_id for span in spans.values()}) == 1
    assert (spans["chat v2"].start_time, spans["chat v2"].end_time) == (2_000_000_000, 2_500_000_000)
    assert spans[f"experiment {T}"].attributes["arms"] == ("v2", "v1")


def test_request_span_has_conventional_attributes(emitter):
    emitter("sample.start", facts=ASKED)
    emitter("request.start")
    facts = {"input_tokens": 5, "output_tokens": 2, "finish": "stop", "model": "m-1", "first_token_s": 0.1}
    emitter("request.stop", facts={**facts, "cost_usd": 0.01})
    emitter("sample.stop")

    assert dict(emitter.over()["chat v2"].attributes) == {
        "crucible.run": "run1",
        "crucible.experiment": T,
        "crucible.arm": "v2",
        "crucible.sample": "a",
        "crucible.repeat": 0,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "v2",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stop_sequences": ("\n",),
        "gen_ai.response.model": "m-1",
        "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.response.time_to_first_chunk": 0.1,
        "gen_ai.response.finish_reasons": ("stop",),
        "crucible.cost_usd": 0.01,
    }


@pytest.mark.parametrize(
    ("error", "status"), [("429", StatusCode.ERROR), ("timeout", StatusCode.ERROR), ("cancelled", StatusCode.UNSET)]
)
def test_failed_request_span_has_an_error_status(emitter, error, status):
    emitter("request.start")
    emitter("request.stop", facts={"error": error})
    span = emitter.over()["chat v2"]

    assert (span.status.status_code, span.attributes["error.type"]) == (status, error)


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"outcome": "answered"}, StatusCode.UNSET),
        ({"outcome": "failed", "reason": "timeout"}, StatusCode.UNSET),
        ({"outcome": "lost", "reason": "error"}, StatusCode.ERROR),
    ],
)
def test_sample_span_has_its_outcome(emitter, facts, status):
    emitter("sample.start")
    emitter("sample.stop", facts=facts)
    span = emitter.over()["sample a"]

    assert span.status.status_code == status
    assert {f"crucible.{name}": value for name, value in facts.items()}.items() <= span.attributes.items()


def test_other_events_are_span_events(emitter):
    emitter("sample.start")
    emitter("request.retry", 2.0, facts={"kind": "429", "attempt": 1, "wait_s": None})
    emitter("limiter.wait", 3.0, seconds=0.5)
    emitter("vote", 3.0, sample="another")
    emitter("sample.stop")
    spans = emitter.over()

    events = [(event.name, dict(event.attributes)) for event in spans["sample a"].events]
    assert events == [("request.retry", {"kind": "429", "attempt": 1}), ("limiter.wait", {"seconds": 0.5})]
    assert [event.name for event in spans["crucible run"].events] == ["vote"]


@in_event_loop
async def test_interleaved_experiments_do_not_mix(emitter):
    """Each sample in a task of its own, as the engine has it."""

    async def sample(experiment: str, name: str) -> None:
        emitter("sample.start", sample=name, experiment=experiment, arm=name)
        await asyncio.sleep(0)
        emitter("request.start", sample=name, experiment=experiment, arm=name)
        await asyncio.sleep(0)
        emitter("request.stop", sample=name, experiment=experiment, arm=name)
        await asyncio.sleep(0)
        emitter("sample.stop", sample=name, experiment=experiment, arm=name)

    for experiment in (T, U):
        emitter("experiment.start", experiment=experiment)
    await asyncio.gather(*(sample(unit, f"{unit}{k}") for k in range(3) for unit in (T, U)))
    for experiment in (T, U):
        emitter("experiment.stop", experiment=experiment)
    spans = emitter.over()
    assert len(spans) == 15
    for name in (f"{unit}{k}" for k in range(3) for unit in (T, U)):
        assert parent(spans, f"chat {name}") == f"sample {name}"
        assert parent(spans, f"sample {name}") == f"experiment {name[:-1]}"


def generate(emit: Emit, function: Callable[[Metered], Any]) -> Any:
    """Run what a test function would do to a metered model."""
    return asyncio.run(function(Metered(ScriptedBackend(lambda request: Reply(text="4"), identity="sums"), emit)))


REQUEST = Request(input="2 + 2", sample="a", repeat=0, experiment=T, arm="v2")


def test_user_spans_are_between_sample_and_request(emitter):
    async def function(model: Metered) -> None:
        emitter("sample.start", facts=ASKED)
        with emitter.tracer.start_as_current_span("retrieval"):
            await model.generate(REQUEST)
        emitter("sample.stop")

    generate(emitter.spans, function)
    spans = emitter.over()

    assert parent(spans, "chat v2") == "retrieval"
    assert parent(spans, "retrieval") == "sample a"


def test_client_spans_are_inside_the_request(emitter):
    def script(request: Request) -> str:
        with emitter.tracer.start_as_current_span("POST"):
            return "4"

    model = Metered(ScriptedBackend(script, identity="sums"), emitter.spans)
    asyncio.run(model.generate(REQUEST))
    spans = emitter.over()

    assert parent(spans, "POST") == "chat v2"
    assert parent(spans, "chat v2") == "crucible run"


@in_event_loop
async def test_retry_is_not_a_child_of_the_earlier_attempt(emitter):
    replies = iter([Retryable("busy", kind="429"), "4"])

    def script(request: Request) -> str:
        reply = next(replies)
        if isinstance(reply, Exception):
            raise reply
        return reply

    model = Metered(ScriptedBackend(script, identity="sums"), emitter.spans)
    emitter("sample.start")
    with pytest.raises(Retryable):
        await model.generate(REQUEST)
    await model.generate(REQUEST)
    emitter("sample.stop")
    emitter.spans.close()
    requests = [span for span in emitter._exporter.get_finished_spans() if span.name.startswith("chat")]
    assert len(requests) == len({span.context.span_id for span in requests}) == 2
    assert requests[0].parent == requests[1].parent


def test_events_after_the_end_are_ignored(emitter):
    emitter("experiment.start")
    emitter("sample.start")
    emitter.spans.close()
    emitter("request.stop")
    emitter("sample.stop")
    emitter("experiment.stop")
    emitter.spans.close()

    assert set(emitter.over()) == {"crucible run", "sample a", f"experiment {T}"}


# -- metrics ------------------------------------------------------------------------------------------------------


@pytest.fixture
def reader() -> InMemoryMetricReader:
    return InMemoryMetricReader()


@pytest.fixture
def instruments(reader) -> Instruments:
    return Instruments(MeterProvider([reader]).get_meter("a test"))


def points(reader: InMemoryMetricReader) -> dict[str, list[Any]]:
    data = reader.get_metrics_data()
    metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else []
    return {metric.name: list(metric.data.data_points) for metric in metrics}


def tell(instruments: Instruments, name: str, **facts: Any) -> None:
    instruments(Event(**{"name": name, "at": 1.0, "experiment": T, "arm": "v2", "sample": "a", **facts}))


def test_request_metrics_by_arm_and_error(instruments, reader):
    tell(instruments, "sample.start", facts=ASKED)
    tell(instruments, "request.stop", seconds=0.5, facts={"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.25})
    tell(instruments, "request.stop", seconds=1.5, facts={"first_token_s": 0.1, "cost_usd": 0.5})
    tell(instruments, "request.stop", seconds=0.1, facts={"error": "429"})
    metrics = points(reader)

    durations = {point.attributes.get("error.type"): point for point in metrics["gen_ai.client.operation.duration"]}
    assert (durations[None].count, durations[None].sum, durations["429"].count) == (2, 2.0, 1)
    assert durations[None].attributes["gen_ai.provider.name"] == "openai"
    assert (durations[None].attributes["crucible.experiment"], durations[None].attributes["crucible.arm"]) == (T, "v2")
    assert durations[None].explicit_bounds[0] == 0.01
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in metrics["gen_ai.client.token.usage"]}
    assert tokens == {"input": 5, "output": 2}
    assert [point.value for point in metrics["crucible.cost"]] == [0.75]
    assert [point.sum for point in metrics["gen_ai.client.operation.time_to_first_chunk"]] == [0.1]


def test_other_metrics_are_recorded(instruments, reader):
    tell(instruments, "limiter.wait", seconds=0.25)
    tell(instruments, "request.retry")
    tell(instruments, "request.retry")
    tell(instruments, "train.step", experiment="", sample="", facts={"loss": 0.5})
    metrics = points(reader)

    assert [point.sum for point in metrics["crucible.limiter.wait"]] == [0.25]
    events = {point.attributes["crucible.event"]: point.value for point in metrics["crucible.events"]}
    assert events == {"request.retry": 2}
    assert [(point.value, point.attributes["crucible.arm"]) for point in metrics["crucible.train.loss"]] == [
        (0.5, "v2")
    ]
