"""Timelines as OTLP, read by OpenTelemetry's own messages."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hostile_texts import HOSTILE
from timeline_builders import START, TOOL_CALL, a_call, a_decision, a_long_story, a_timeline

from pytest_crucible.features.provenance.exports.files import write_timelines
from pytest_crucible.features.provenance.timeline import Step, Timeline

json_format = pytest.importorskip("google.protobuf.json_format", reason="opentelemetry-proto is not installed")
trace_service = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="opentelemetry-proto is not installed"
)


def spans_of(path: Path, *timelines: Timeline) -> list[Any]:
    """The spans of a file, as the collector's message has them."""
    write_timelines(timelines, path / "trace.otlp.json")
    request = json_format.Parse((path / "trace.otlp.json").read_text(), trace_service.ExportTraceServiceRequest())
    [resource] = request.resource_spans
    [scope] = resource.scope_spans
    assert scope.scope.name == "pytest_crucible"
    return list(scope.spans)


def facts_of(record: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes}


def test_a_request_is_within_its_sample_its_experiment_and_the_run(tmp_path):
    spans = spans_of(tmp_path, a_long_story())

    assert [span.name for span in spans] == [
        "crucible run",
        "experiment test_qa.py::test_qa",
        "sample q17",
        "chat big-model",
        "chat big-model",
    ]
    run, experiment, sample, failed, answered = spans
    assert len({span.trace_id for span in spans}) == 1
    assert len({span.span_id for span in spans}) == 5
    assert [run.parent_span_id, experiment.parent_span_id] == [b"", run.span_id]
    assert sample.parent_span_id == experiment.span_id
    assert failed.parent_span_id == answered.parent_span_id == sample.span_id
    assert (failed.start_time_unix_nano, failed.end_time_unix_nano) == (
        round((START + 0.25) * 1e9),
        round((START + 0.75) * 1e9),
    )
    assert (sample.start_time_unix_nano, sample.end_time_unix_nano) == (round(START * 1e9), round((START + 2) * 1e9))
    assert failed.status.code == 2
    assert failed.kind == answered.kind == 3


def test_attributes_are_those_of_live_spans(tmp_path):
    *_, sample, failed, answered = spans_of(tmp_path, a_long_story())

    unit = {
        "crucible.run": "3f2a",
        "crucible.experiment": "test_qa.py::test_qa",
        "crucible.arm": "v2",
        "crucible.sample": "q17",
        "crucible.repeat": 0,
    }
    settings = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "big-model",
        "gen_ai.request.temperature": 0.7,
        "crucible.call": 1,
    }
    assert facts_of(sample) == {**unit, "crucible.outcome": "answered"}
    assert facts_of(failed) == {**unit, **settings, "crucible.request": 1, "error.type": "429"}
    answer = facts_of(answered)
    assert [each.string_value for each in answer.pop("gen_ai.response.finish_reasons").values] == ["stop"]
    assert answer == {
        **unit,
        **settings,
        "crucible.request": 2,
        "gen_ai.response.model": "big-model-1",
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 1,
        "crucible.cost_usd": 0.001,
    }


def test_scores_are_evaluation_results_and_claims_are_marked(tmp_path):
    steps = [
        Step(kind="score", title="", facts={"metric": "cost", "value": None}),
        Step(kind="score", title="", facts={"metric": "kind", "value": "refusal"}),
    ]
    story = a_long_story()
    sample = spans_of(tmp_path, replace(story, steps=(*story.steps, *steps)))[2]
    events = [(event.name, facts_of(event)) for event in sample.events]

    name, value, label = (f"gen_ai.evaluation.{word}" for word in ("name", "score.value", "score.label"))
    assert [facts for event, facts in events if event == "gen_ai.evaluation.result"] == [
        {name: "exact_match", value: 1.0, label: "true"},
        {name: "f1", value: 0.5},
        {name: "cost", label: "not applicable"},
        {name: "kind", label: "refusal"},
    ]
    assert [facts["is_claim"] for event, facts in events if event == "crucible.decision"] == [False, True]
    assert ("request.retry", {"kind": "429", "attempt": 1, "wait_s": 1.0}) in events
    assert ("limiter.wait", {"seconds": 0.25}) in events
    content = dict(events)["gen_ai.client.inference.operation.details"]
    assert json.loads(content["gen_ai.input.messages"])[1] == {
        "role": "user",
        "parts": [{"type": "text", "content": "What is 1 + 1?"}],
    }


def test_the_encoding_is_that_of_otlp_and_ids_are_equal_in_each_export(tmp_path):
    spans_of(tmp_path, a_long_story())
    text = (tmp_path / "trace.otlp.json").read_text()
    spans_of(tmp_path, a_long_story(), a_timeline(a_call(), sample="q18"))
    both = json.loads((tmp_path / "trace.otlp.json").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]

    spans = json.loads(text)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for span in spans:
        # Ids are hexadecimal, although protobuf's own JSON has bytes as base64.
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert re.fullmatch(r"\d+", span["startTimeUnixNano"])
        assert span["kind"] in (1, 3)
    assert {span["spanId"] for span in spans} <= {span["spanId"] for span in both}
    assert len({span["spanId"] for span in both}) == len(both) == len(spans) + 1
    assert b64encode(b"") == b""


def test_lost_samples_and_odd_numbers_are_written(tmp_path):
    end = Step(kind="end", title="lost", facts={"state": "lost", "detail": "connection"})
    odd = a_decision("x", seed=2**70, half=float("inf"), none=float("nan"), flag=True)

    [_, _, sample] = spans_of(tmp_path, a_timeline(odd, end))

    assert (sample.status.code, sample.status.message) == (2, "connection")
    facts = facts_of(sample.events[0])
    assert facts["seed"] == str(2**70)
    assert facts["half"] == float("inf")
    assert facts["flag"] is True


def test_a_timeline_without_times_or_steps_is_written(tmp_path):
    assert len(spans_of(tmp_path, a_timeline(a_decision("x")), a_timeline(sample="q18"))) == 4


@pytest.mark.parametrize("text", [*HOSTILE.values(), ""], ids=lambda text: ascii(text[:12]))
def test_hostile_texts_are_read(tmp_path, text):
    text = text[:100_000]
    request = Step(kind="request", title=text, at=1.0, member=text, facts={"model": text, "error": text})
    score = Step(kind="score", title=text, facts={"metric": text, "value": text})

    spans = spans_of(tmp_path, a_timeline(a_call(text), request, a_decision(text), score, sample=text, arm=text))

    assert facts_of(spans[2])["crucible.sample"] == text.encode("utf-8", "backslashreplace").decode()


def test_tools_are_parts_of_messages(tmp_path):
    sent = ({"role": "assistant", "tool_calls": [TOOL_CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "done"})

    *_, sample = spans_of(tmp_path, a_timeline(a_call("", prompt=sent, tool_calls=[TOOL_CALL, {"tool": "x"}])))

    [content] = [facts_of(event) for event in sample.events]
    called = {"type": "tool_call", "id": "c1", "name": "refund", "arguments": {"order": 17}}
    assert json.loads(content["gen_ai.input.messages"]) == [
        {"role": "assistant", "parts": [called]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "done"}]},
    ]
    assert json.loads(content["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [called, {"type": "tool_call", "arguments": {"tool": "x"}}]}
    ]
