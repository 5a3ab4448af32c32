"""Experiments of Phoenix: an example is a sample, an annotation a metric, and a failed run is lost."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import Results
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"


def arm(name: str | Path = "phoenix-v2.json", group: str = "") -> Results:
    (results,) = read(FILES / name, group=group).results
    return results


def row(question: str, results: Results | None = None):
    return next(one for one in (results or arm()).rows if one.input == {"question": question})


def test_an_example_is_a_sample_with_its_annotations():
    one = row("What is 1 + 1?")

    assert one.scores == {"exact_match": 0.0, "brevity": 0.0, "tone": "wordy"}
    assert (one.expected, one.reply.text) == ({"answer": "2"}, "a thousand")
    assert 0 < one.reply.latency_s < 1


def test_repetitions_are_repeats():
    results = arm()

    assert results.repeats == 2
    assert {(one.sample, one.repeat) for one in results.rows} == {(s.sample, k) for s in results.rows for k in (0, 1)}


def test_a_failed_run_is_lost_though_an_evaluator_compared_its_missing_output():
    written = [run for run in json.loads((FILES / "phoenix-v2.json").read_text()) if run["error"]]
    scores = [one["score"] for run in written for one in run["annotations"] if one["name"] == "exact_match"]
    one = row("What is 7 + 7?")

    assert scores == [0.0, 0.0]
    assert (one.error, one.scores, one.reply) == ("RuntimeError('the model server went away')", {}, None)


def test_an_evaluator_that_failed_is_lost_with_its_error():
    assert row("What is 8 + 8?").lost == {"brevity": "RuntimeError('the judge went away')"}


def test_an_evaluator_that_did_not_run_is_lost(tmp_path):
    written = json.loads((FILES / "phoenix-v2.json").read_text())
    written[0]["annotations"] = written[0]["annotations"][:1]
    path = tmp_path / "v.json"
    path.write_text(json.dumps(written))

    assert set(arm(path).rows[0].lost) == {"exact_match", "tone"}


def test_the_csv_has_the_same_and_the_metadata_of_examples():
    rows = arm("phoenix-v2.csv").rows

    assert [replace(one, metadata={}) for one in rows] == arm().rows
    assert {one.metadata["topic"] for one in rows} == {"odd", "even"}
    assert {one.group for one in arm("phoenix-v2.csv", group="topic").rows} == {"odd", "even"}


def test_an_output_with_fields_is_json(tmp_path):
    written = json.loads((FILES / "phoenix-v2.json").read_text())
    written[0]["output"] = {"b": 1, "a": "x"}
    path = tmp_path / "v.json"
    path.write_text(json.dumps(written))

    assert arm(path).rows[0].reply.text == '{"a":"x","b":1}'


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_experiment_without_annotations_is_refused(kind, tmp_path):
    path = tmp_path / f"v.{kind}"
    if kind == "json":
        written = json.loads((FILES / "phoenix-v2.json").read_text())
        path.write_text(json.dumps([{**run, "annotations": []} for run in written]))
    else:
        with (FILES / "phoenix-v2.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        width = next(k for k, name in enumerate(rows[0]) if name.startswith("annotation_"))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(cells[:width] for cells in rows)

    with pytest.raises(SpecError, match="without annotations: run Phoenix's evaluators"):
        read(path)
