"""Tables of LangSmith: an example is a sample, and a failed run is lost whatever an evaluator made of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import Results

FILES = Path(__file__).parents[2] / "data" / "imports"


def arm(name: str | Path = "langsmith-v2.jsonl") -> Results:
    (results,) = read(FILES / name).results
    return results


def row(question: str):
    return next(one for one in arm().rows if one.input == {"question": question})


def test_an_example_is_a_sample_with_its_feedback():
    one = row("What is 1 + 1?")

    assert one.scores == {"exact_match": False, "brevity": 0.0, "tone": "wordy"}
    assert (one.expected, one.reply.text) == ({"answer": "2"}, "a thousand")
    assert one.reply.latency_s > 0


def test_repetitions_are_repeats():
    assert set(Counter(one.sample for one in arm().rows).values()) == {2}


def test_a_failed_run_is_lost_though_an_evaluator_compared_its_missing_output():
    written = [json.loads(line) for line in (FILES / "langsmith-v2.jsonl").read_text().splitlines()]
    one = row("What is 7 + 7?")

    assert [run["feedback.exact_match"] for run in written if run["error"]] == [False, False]
    assert (one.error, one.scores, one.reply) == ("RuntimeError('the model server went away')", {}, None)


def test_an_evaluator_that_failed_is_lost():
    assert row("What is 8 + 8?").lost == {"brevity": "the evaluator gave no value"}


def test_csv_and_json_lines_say_the_same():
    assert arm("langsmith-v2.csv").rows == arm().rows


def test_a_reply_of_several_outputs_is_json(tmp_path):
    run = {"inputs.q": "x", "outputs.a": "1", "outputs.b": "2", "error": None, "feedback.m": 1, "execution_time": None}
    path = tmp_path / "v.json"
    path.write_text(json.dumps([{**run, "example_id": "e"}]))

    assert arm(path).rows[0].reply.text == '{"a":"1","b":"2"}'
