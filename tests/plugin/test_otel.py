"""A run as spans of the user's own tracer provider. A process has one provider: each run is a process of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

PROVIDER = """
    import json, os

    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()

    def pytest_configure(config):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        trace.set_tracer_provider(provider)

    def pytest_unconfigure(config):
        with open("calls.txt", "a") as file:
            for one in exporter.get_finished_spans():
                parent = one.parent.span_id if one.parent else None
                told = [one.name, one.context.span_id, parent, one.context.trace_id, dict(one.attributes)]
                file.write(json.dumps(told) + chr(10))
"""
TWO = """
    import pytest

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    {define} test_{name}(sample, sampler):
        return {wait}sampler.generate(sample.input)
"""
SCRIPT = "def answer(request):\n    return request.input"


@pytest.fixture
def traced(suite):
    """Two experiments, one of them a plain function, and a tracer provider."""
    suite.script(SCRIPT)
    suite.pytester.makeconftest(PROVIDER)
    suite.test(TWO.format(name="sums", define="async def", wait="await "))
    suite.test(TWO.format(name="others", define="def", wait=""), name="test_others")
    return suite


def spans(suite) -> list[dict[str, Any]]:
    names = ("name", "id", "parent", "trace", "attributes")
    return [dict(zip(names, json.loads(line), strict=True)) for line in suite.calls()]


@pytest.mark.parametrize("arguments", [(), pytest.param(("-n2",), marks=pytest.mark.slow)], ids=["plain", "n2"])
def test_every_request_is_within_its_sample_its_experiment_and_the_run(traced, arguments):
    result = traced.run_apart("--crucible-adapter=scripted", "--crucible-otel", *arguments)

    assert result.ret == 0
    found_spans = spans(traced)
    by_id = {found_span["id"]: found_span for found_span in found_spans}
    requests = [found_span for found_span in found_spans if found_span["name"] == "chat scripted"]
    assert len(requests) == 40
    for request in requests:
        sample = by_id[request["parent"]]
        experiment = by_id[sample["parent"]]
        run = by_id[experiment["parent"]]
        assert sample["name"] == f"sample {request['attributes']['crucible.sample']}"
        assert experiment["name"] == f"experiment {request['attributes']['crucible.experiment']}"
        assert (run["name"], run["parent"]) == ("crucible run", None)
        assert request["attributes"]["gen_ai.provider.name"] == "scripted"
    assert len({found_span["attributes"]["crucible.run"] for found_span in found_spans}) == 1
    assert len({found_span["id"] for found_span in found_spans if found_span["name"] == "crucible run"}) <= 2


def test_the_configuration_can_ask_for_it(traced):
    traced.pytester.makefile(".ini", pytest="[pytest]\ncrucible_otel = true")
    traced.run_apart("--crucible-adapter=scripted")

    assert len(spans(traced)) == 83


def test_no_span_is_emitted_unless_requested(traced):
    traced.run_apart("--crucible-adapter=scripted")

    assert spans(traced) == []


def test_a_missing_provider_stops_the_session_before_any_request(traced):
    traced.pytester.makeconftest("")
    result = traced.run_apart("--crucible-adapter=scripted", "--crucible-otel")

    traced.refuses(
        result,
        "crucible_otel is set, but OpenTelemetry has neither a tracer provider nor a meter provider, so that nothing would be "
        "received: set one in pytest_configure of a conftest.py, or run opentelemetry-instrument pytest",
    )


@pytest.mark.slow
def test_where_it_is_not_installed_the_extra_is_named(traced):
    traced.pytester.makeconftest("import sys\nsys.modules['opentelemetry'] = None")
    result = traced.run_new("--crucible-adapter=scripted", "--crucible-otel")

    traced.refuses(
        result,
        'crucible_otel needs OpenTelemetry, which is not installed: pip install "pytest-crucible[[]otel]"',
    )
