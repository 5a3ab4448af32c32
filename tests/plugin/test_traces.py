"""`crucible trace` on stored sessions: what it prints, finds, compares and writes."""

from __future__ import annotations

import csv
import json
import re
from typing import Any

import pytest
from hostile_texts import CONTROL, FORMULAS, HOSTILE
from openai_server import OpenAIServer

from pytest_crucible.features.provenance.exports.files import TIMELINES

DECIDING = """
    import pytest
    from pytest_crucible import trace

    @pytest.mark.crucible(dataset="questions.jsonl", metrics=["exact_match"])
    async def test_sums(sample, sampler):
        first = trace.decision("binary search", over=["scan"], because="sorted", confidence=0.8)
        trace.decision("scan", because="only 9 rows", revises=first)
        return trace.read(await sampler.generate(sample.input))
"""
ANSWER = """
def answer(request):
    number = request.input.split()[0]
    return f"<event type='ambiguity_flagged'><decision>{number}?</decision><confidence>0.6</confidence></event>{number}"
"""
SCRIPTED = "--crucible-adapter=scripted"


@pytest.fixture
def deciding(suite):
    suite.script(ANSWER)
    suite.test(DECIDING)
    return suite


def test_a_sample_is_followed_and_its_claims_are_marked(deciding, crucible):
    assert deciding.run(SCRIPTED).ret == 0

    status, output, _ = crucible("trace", "latest", "q03")

    lines = [re.sub(r"\+\d\.\d{3} s", "        ", line) for line in output.splitlines()]
    assert status == 0
    assert lines[:9] == [
        "test_sums, sample q03, scripted",
        "  1              decision: binary search (confidence 0.8)",
        "                 over       scan",
        "                 because    sorted",
        "  2              decision: scan",
        "                 instead of binary search",
        "                 because    only 9 rows",
        "  3              call 1: 1 message",
        "                 prompt     3 + 3",
    ]
    assert "  says: ambiguity_flagged: 3? (confidence 0.6)" in output
    assert lines[-1] == "                 scored     3"


def test_decisions_are_found_and_compared_between_runs(deciding, crucible):
    assert deciding.run(SCRIPTED).ret == 0
    first = json.loads(crucible("runs", "--json")[1])[0]["id"]
    deciding.test(DECIDING.replace('"only 9 rows"', '"only 9 rows" if sample.id > "q02" else f"only {sample.id} rows"'))
    assert deciding.run(SCRIPTED, "--crucible-cache=refresh").ret == 0

    where = crucible("trace", "latest", "--where", "kind = ambiguity_flagged and confidence < 0.7")[1]
    of_one = json.loads(crucible("trace", "latest", "q05", "--where", "claim = yes", "--json")[1])
    against = crucible("trace", "latest", "--against", first)[1]
    document = json.loads(crucible("trace", "latest", "--against", first, "--json")[1])

    assert re.match(
        r"20 decisions of run \w+ in 20 replies\n\ntest_sums, sample q00, scripted\n +3  says: ambig", where
    )
    assert [timeline["sample"] for timeline in of_one["timelines"]] == ["q05"]
    assert (
        "of 20 replies with decisions 17 have equal ones\n\ntest_sums, sample q00, scripted: similarity 0.67" in against
    )
    assert "+   2  decision: scan\n                 instead of decision 1\n" in against
    assert "because    only q00 rows" in against
    assert sorted({each["similarity"] for each in document["replies"]}) == [2 / 3, 1.0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("q33",), r"run \w+ has no sample 'q33': did you mean 'q\d\d'\?"),
        (("q03", "--arm=scriptd"), r"run \w+ has no arm 'scriptd': did you mean 'scripted'\?"),
        (("q33", "--where=claim = yes"), r"run \w+ has no sample 'q33': did you mean 'q\d\d'\?"),
        (("--where=claim = yes", "--arm=scriptd"), r"run \w+ has no arm 'scriptd': did you mean 'scripted'\?"),
        ((), r"no sample is named: name one of the 20 of run (\w+), such as `crucible trace \1 q00`"),
        (("q03", "-o", "a.dot"), r"nothing writes .\.dot.: use \.mmd, \.otlp\.json, \.chrome\.json, .*, \.jsonl or \.csv"),
        (("q03", "--as=graph"), r"--as graph is the kind of diagram in a \.mmd file, .*"),
        (("--where=kind = ambiguity_flagge",), r".*'ambiguity_flagge': did you mean 'ambiguity_flagged'\?.*"),
        (("--where=kind = x", "--against=latest"), r"--where searches one run and --against compares two: write one of them"),
        (("--against=latest", "-o", "a.csv"), r"--against compares two runs and -o writes the timelines of one: .*"),
        (("q03", "-o", "missing/a.csv"), r"-o missing/a\.csv cannot be written: No such file or directory"),
    ],
    ids=lambda value: " ".join(value)[:20] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_cannot_be_traced_is_one_sentence(deciding, crucible, arguments, sentence):
    deciding.prepare_once(run_once)

    status, output, error = crucible("trace", "latest", *arguments)

    assert (status, output) == (4, "")
    assert re.fullmatch(f"crucible trace: (?:{sentence})\n", error)


def run_once(suite: Any) -> None:
    assert suite.run(SCRIPTED).ret == 0


def test_without_tracing_calls_are_unknown_and_a_search_is_refused(deciding, crucible):
    assert deciding.run(SCRIPTED, "--crucible-trace=off").ret == 0

    status, output, _ = crucible("trace", "latest", "q03")
    searched, _, error = crucible("trace", "latest", "--where=claim = yes")

    assert status == 0
    assert re.search(r"^run \w+ was recorded with --crucible-trace=off: its calls are unknown$", output, re.MULTILINE)
    assert "scored     3" in output
    assert searched == 4
    assert re.fullmatch(
        r"crucible trace: run \w+ was recorded with --crucible-trace=off: its decisions are unknown\n", error
    )


PROVIDER = """
    import json

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
            for span in exporter.get_finished_spans():
                events = [[event.name, event.timestamp, dict(event.attributes)] for event in span.events]
                facts = [span.name, span.start_time, span.end_time, span.status.status_code.value, dict(span.attributes), events]
                file.write(json.dumps(facts) + chr(10))
"""


def test_exported_spans_are_those_that_the_session_sent(suite, crucible):
    suite.pytester.makeconftest(PROVIDER)
    with OpenAIServer.start(latency_s=0.002, fault="503", fails_first=1, retry_after="ms:1") as server:
        table = {"backend": "openai", "base_url": server.url, "model": "big", "retries": 20}
        suite.adapters({"served": table})
        with (suite.path / "crucible.toml").open("a") as file:
            file.write("[adapters.served.parameters]\ntemperature = 0.5\n")
        assert suite.run_apart("--crucible-adapter=served", "--crucible-otel").ret == 1  # the server repeats the prompt

    live = [json.loads(line) for line in suite.calls()]
    crucible("trace", "latest", "q03", "-o", "a.otlp.json")
    document = json.loads((suite.path / "a.otlp.json").read_text())
    exported = [_plain_span(span) for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]]

    of_sample = [span for span in live if span[4].get("crucible.sample") == "q03"]
    assert len(of_sample) == len(exported) - 2 > 2
    assert {span[0] for span in live} >= {span[0] for span in exported}
    for ours in exported[2:]:
        theirs = next(
            span for span in of_sample if (span[0], span[2]) == (ours[0], ours[2]) or span[0] == ours[0] == "sample q03"
        )
        extra = {"crucible.call", "crucible.request"} if ours[0].startswith("chat") else set()
        assert {name: value for name, value in ours[4].items() if name not in extra} == theirs[4]
        assert ours[3] == theirs[3]
        assert abs(ours[1] - theirs[1]) < 1e9
        own = [event for event in ours[5] if not event[0].startswith("gen_ai.")]
        assert sorted(map(json.dumps, own)) == sorted(map(json.dumps, theirs[5]))


def _plain_span(span: dict[str, Any]) -> list[Any]:
    events = [[each["name"], int(each["timeUnixNano"]), _plain(each["attributes"])] for each in span.get("events", [])]
    times = (int(span[f"{end}TimeUnixNano"]) for end in ("start", "end"))
    return [span["name"], *times, span.get("status", {}).get("code", 0), _plain(span["attributes"]), events]


def _plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    def value(of: dict[str, Any]) -> Any:
        [(kind, inner)] = of.items()
        if kind == "arrayValue":
            return [value(each) for each in inner["values"]]
        return int(inner) if kind == "intValue" else inner

    return {each["key"]: value(each["value"]) for each in attributes}


HOSTILE_SUITE = """
    import pytest
    from pytest_crucible import trace

    @pytest.mark.crucible(dataset="hostile.jsonl", metrics=["exact_match"])
    async def test_hostile(sample, sampler):
        trace.decision(sample.input, over=[sample.input], because=sample.input)
        return trace.read(await sampler.generate(sample.input))
"""
HOSTILE_ANSWER = """
def answer(request):
    return f"{request.input}<event type='{request.input[:20]}'><decision>{request.input}</decision></event>"
"""
TEXTS = [text[:20_000] for name, text in HOSTILE.items() if name != "half"] + list(FORMULAS)


@pytest.fixture
def hostile(suite):
    suite.prepare_once(run_hostile)
    return suite


def run_hostile(suite: Any) -> None:
    rows = [{"id": f"{k}{text[:1000]}", "input": text, "expected": "1"} for k, text in enumerate(TEXTS)]
    suite.write_rows("hostile.jsonl", [*rows, {"id": "deep", "input": "[" * 10_000 + "]" * 10_000}])
    suite.script(HOSTILE_ANSWER)
    suite.test(HOSTILE_SUITE)
    assert suite.run(SCRIPTED, "-k", "hostile").ret == 0


def stored_ids(suite: Any) -> list[str]:
    return [json.loads(line)["id"] for line in (suite.path / "hostile.jsonl").read_text().splitlines()]


def test_the_terminal_shows_no_control_character_and_one_screen_of_a_hostile_sample(hostile, crucible):
    for sample in stored_ids(hostile):
        for more in ((), ("-v",), ("--json",)):
            status, output, _ = crucible("trace", "latest", sample.replace("\0", "\ufffd"), *more)
            assert status == 0
            assert CONTROL.findall(output) == []
            assert more or len(output.splitlines()) < 24
            assert more or max(map(len, output.splitlines())) < 800
    output = crucible("trace", "latest", "--where", "claim = yes", "-v")[1]
    assert CONTROL.findall(output) == []


def test_no_export_of_a_hostile_sample_has_a_control_character_or_a_formula(hostile, crucible):
    for sample in stored_ids(hostile):
        for ending in TIMELINES:
            assert crucible("trace", "latest", sample.replace("\0", "\ufffd"), "-o", f"a{ending}")[0] == 0
            assert CONTROL.findall((hostile.path / f"a{ending}").read_text(encoding="utf-8")) == []
        with (hostile.path / "a.csv").open(newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert [cell[:40] for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))] == []
