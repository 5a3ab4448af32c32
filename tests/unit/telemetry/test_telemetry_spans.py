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

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.metered import Metered
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import Retryable
from pytest_crucible.telemetry.instruments import Instruments
from pytest_crucible.telemetry.spans import Spans

T, U = "test_sums.py::test_sums", "test_sums.py::test_others"
ASKED = {"adapter": "openai:v2", "parameters": {"temperature": 0.5, "stop": ["\n"], "lora": 8}}


class Told:
    """Spans of a run, and what was exported of it."""

    def __init__(self) -> None:
        provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer: Tracer = provider.get_tracer("a test")
        self.spans = Spans("run1", self.tracer)

    def __call__(self, name: str, at: float = 1.0, sample: str = "a", arm: str = "v2", **fields: Any) -> None:
        experiment, facts = fields.pop("experiment", T), fields.pop("facts", {})
        if name.startswith("experiment."):
            self.spans(Event(name=name, at=at, experiment=experiment, facts=facts))
        else:
            self.spans(Event(name=name, at=at, experiment=experiment, arm=arm, sample=sample, facts=facts, **fields))

    def over(self) -> dict[str, ReadableSpan]:
        """All spans by their names, after the run was closed."""
        self.spans.close()
        return {finished_span.name: finished_span for finished_span in self._exporter.get_finished_spans()}


@pytest.fixture
def recorder() -> Told:
    return Told()


def parent(spans: Mapping[str, ReadableSpan], name: str) -> str:
    above = spans[name].parent
    return next(span.name for span in spans.values() if above and span.context.span_id == above.span_id)


def test_a_request_is_within_its_sample_which_is_within_its_experiment_and_that_within_the_run(recorder):
    recorder("experiment.start", facts={"dataset": "sums", "arms": ["v2", "v1"]})
    recorder("sample.start", facts=ASKED)
    recorder("request.start", 2.0)
    recorder("request.stop", 2.5)
    recorder("sample.stop", 3.0, facts={"outcome": "answered"})
    recorder("experiment.stop", 4.0)
    spans = recorder.over()

    assert parent(spans, "chat v2") == "sample a"
    assert parent(spans, "sample a") == f"experiment {T}"
    assert parent(spans, f"experiment {T}") == "crucible run"
    assert spans["crucible run"].parent is None
    assert len({span.context.trace_id for span in spans.values()}) == 1
    assert (spans["chat v2"].start_time, spans["chat v2"].end_time) == (2_000_000_000, 2_500_000_000)
    assert spans[f"experiment {T}"].attributes["arms"] == ("v2", "v1")


def test_a_request_has_the_attributes_of_the_semantic_conventions(recorder):
    recorder("sample.start", facts=ASKED)
    recorder("request.start")
    facts = {"input_tokens": 5, "output_tokens": 2, "finish": "stop", "model": "m-1", "first_token_s": 0.1}
    recorder("request.stop", facts={**facts, "cost_usd": 0.01})
    recorder("sample.stop")

    assert dict(recorder.over()["chat v2"].attributes) == {
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
def test_a_request_that_failed_says_how_and_one_that_lost_to_a_hedge_is_no_error(recorder, error, status):
    recorder("request.start")
    recorder("request.stop", facts={"error": error})
    span = recorder.over()["chat v2"]

    assert (span.status.status_code, span.attributes["error.type"]) == (status, error)


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"outcome": "answered"}, StatusCode.UNSET),
        ({"outcome": "failed", "reason": "timeout"}, StatusCode.UNSET),
        ({"outcome": "lost", "reason": "error"}, StatusCode.ERROR),
    ],
)
def test_a_sample_says_what_became_of_it(recorder, facts, status):
    recorder("sample.start")
    recorder("sample.stop", facts=facts)
    span = recorder.over()["sample a"]

    assert span.status.status_code == status
    assert {f"crucible.{name}": value for name, value in facts.items()}.items() <= span.attributes.items()


def test_what_else_happens_to_a_sample_is_an_event_of_its_span(recorder):
    recorder("sample.start")
    recorder("request.retry", 2.0, facts={"kind": "429", "attempt": 1, "wait_s": None})
    recorder("limiter.wait", 3.0, seconds=0.5)
    recorder("vote", 3.0, sample="another")
    recorder("sample.stop")
    spans = recorder.over()

    events = [(event.name, dict(event.attributes)) for event in spans["sample a"].events]
    assert events == [("request.retry", {"kind": "429", "attempt": 1}), ("limiter.wait", {"seconds": 0.5})]
    assert [event.name for event in spans["crucible run"].events] == ["vote"]


def test_interleaved_experiments_do_not_mix(recorder):
    """Each sample in a task of its own, as the engine has it."""

    async def sample(experiment: str, name: str) -> None:
        recorder("sample.start", sample=name, experiment=experiment, arm=name)
        await asyncio.sleep(0)
        recorder("request.start", sample=name, experiment=experiment, arm=name)
        await asyncio.sleep(0)
        recorder("request.stop", sample=name, experiment=experiment, arm=name)
        await asyncio.sleep(0)
        recorder("sample.stop", sample=name, experiment=experiment, arm=name)

    async def both() -> None:
        await asyncio.gather(*(sample(entry, f"{entry}{k}") for k in range(3) for entry in (T, U)))

    for experiment in (T, U):
        recorder("experiment.start", experiment=experiment)
    asyncio.run(both())
    for experiment in (T, U):
        recorder("experiment.stop", experiment=experiment)
    spans = recorder.over()

    assert len(spans) == 15
    for name in (f"{entry}{k}" for k in range(3) for entry in (T, U)):
        assert parent(spans, f"chat {name}") == f"sample {name}"
        assert parent(spans, f"sample {name}") == f"experiment {name[:-1]}"


def call_metered(emit: Emit, function: Callable[[Metered], Any]) -> Any:
    """Run what a test function would do to a metered model."""
    return asyncio.run(function(Metered(ScriptedBackend(lambda request: Reply(text="4"), identity="sums"), emit)))


REQUEST = Request(input="2 + 2", sample="a", repeat=0, experiment=T, arm="v2")


def test_spans_of_the_test_function_are_within_the_sample_and_around_its_requests(recorder):
    async def function(model: Metered) -> None:
        recorder("sample.start", facts=ASKED)
        with recorder.tracer.start_as_current_span("retrieval"):
            await model.generate(REQUEST)
        recorder("sample.stop")

    call_metered(recorder.spans, function)
    spans = recorder.over()

    assert parent(spans, "chat v2") == "retrieval"
    assert parent(spans, "retrieval") == "sample a"


def test_spans_of_a_client_are_within_the_request(recorder):
    def script(request: Request) -> str:
        with recorder.tracer.start_as_current_span("POST"):
            return "4"

    model = Metered(ScriptedBackend(script, identity="sums"), recorder.spans)
    asyncio.run(model.generate(REQUEST))
    spans = recorder.over()

    assert parent(spans, "POST") == "chat v2"
    assert parent(spans, "chat v2") == "crucible run"


def test_a_retry_is_no_child_of_the_attempt_before_it(recorder):
    replies = iter([Retryable("busy", kind="429"), "4"])

    def script(request: Request) -> str:
        item = next(replies)
        if isinstance(item, Exception):
            raise item
        return item

    async def function() -> None:
        model = Metered(ScriptedBackend(script, identity="sums"), recorder.spans)
        recorder("sample.start")
        with pytest.raises(Retryable):
            await model.generate(REQUEST)
        await model.generate(REQUEST)
        recorder("sample.stop")

    asyncio.run(function())
    recorder.spans.close()

    requests = [
        finished_span
        for finished_span in recorder._exporter.get_finished_spans()
        if finished_span.name.startswith("chat")
    ]
    assert len(requests) == len({request.context.span_id for request in requests}) == 2
    assert requests[0].parent == requests[1].parent


def test_events_after_the_end_are_ignored(recorder):
    recorder("experiment.start")
    recorder("sample.start")
    recorder.spans.close()
    recorder("request.stop")
    recorder("sample.stop")
    recorder("experiment.stop")
    recorder.spans.close()

    assert set(recorder.over()) == {"crucible run", "sample a", f"experiment {T}"}


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


def tell(instruments: Instruments, name: str, **fields: Any) -> None:
    instruments(Event(**{"name": name, "at": 1.0, "experiment": T, "arm": "v2", "sample": "a", **fields}))


def test_requests_are_measured_by_arm_and_class_of_error(instruments, reader):
    tell(instruments, "sample.start", facts=ASKED)
    tell(instruments, "request.stop", seconds=0.5, facts={"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.25})
    tell(instruments, "request.stop", seconds=1.5, facts={"first_token_s": 0.1, "cost_usd": 0.5})
    tell(instruments, "request.stop", seconds=0.1, facts={"error": "429"})
    points_by_name = points(reader)

    durations = {
        entry.attributes.get("error.type"): entry for entry in points_by_name["gen_ai.client.operation.duration"]
    }
    assert (durations[None].count, durations[None].sum, durations["429"].count) == (2, 2.0, 1)
    assert durations[None].attributes["gen_ai.provider.name"] == "openai"
    assert (durations[None].attributes["crucible.experiment"], durations[None].attributes["crucible.arm"]) == (T, "v2")
    assert durations[None].explicit_bounds[0] == 0.01
    tokens = {entry.attributes["gen_ai.token.type"]: entry.sum for entry in points_by_name["gen_ai.client.token.usage"]}
    assert tokens == {"input": 5, "output": 2}
    assert [entry.value for entry in points_by_name["crucible.cost"]] == [0.75]
    assert [entry.sum for entry in points_by_name["gen_ai.client.operation.time_to_first_chunk"]] == [0.1]


def test_waits_losses_and_everything_else_is_measured_too(instruments, reader):
    tell(instruments, "limiter.wait", seconds=0.25)
    tell(instruments, "request.retry")
    tell(instruments, "request.retry")
    tell(instruments, "train.step", experiment="", sample="", facts={"loss": 0.5})
    points_by_name = points(reader)

    assert [entry.sum for entry in points_by_name["crucible.limiter.wait"]] == [0.25]
    events = {
        crucible_event.attributes["crucible.event"]: crucible_event.value
        for crucible_event in points_by_name["crucible.events"]
    }
    assert events == {"request.retry": 2}
    assert [(entry.value, entry.attributes["crucible.arm"]) for entry in points_by_name["crucible.train.loss"]] == [
        (0.5, "v2")
    ]
