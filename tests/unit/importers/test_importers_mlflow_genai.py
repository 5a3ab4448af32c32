"""Results of `mlflow.genai.evaluate`: what was asked, what it was scored, and what its traces say went wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import Results
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"


def arm(name: str | Path = "mlflow-genai-v2.json") -> Results:
    (results,) = read(FILES / name).results
    return results


def row(results: Results, sample: str):
    (one,) = [one for one in results.rows if one.sample == sample]
    return one


@pytest.fixture
def table(tmp_path):
    """Return what is read from the rows of v2 after a change."""

    def changed(change):
        rows = json.loads((FILES / "mlflow-genai-v2.json").read_text())
        change(rows)
        path = tmp_path / "v2.json"
        path.write_text(json.dumps(rows))
        return read(path)

    return changed


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_parquet_json_and_csv_say_the_same(ending):
    assert arm(f"mlflow-genai-v2.{ending}").rows == arm().rows


def test_a_sample_has_its_inputs_expectations_tags_and_reply():
    one = row(arm(), "What is 1 + 1?")

    assert (one.input, one.expected) == ({"question": "What is 1 + 1?"}, {"expected_response": "2"})
    assert (one.metadata, one.reply.text) == ({"topic": "sums"}, "a thousand")
    assert one.reply.latency_s > 0


def test_expectations_are_no_metrics():
    assert row(arm(), "What is 1 + 1?").scores == {"exact_match": False, "brevity": 0.0, "clear": False}


def test_a_failed_prediction_is_lost_though_a_scorer_compared_its_missing_output():
    rows = json.loads((FILES / "mlflow-genai-v2.json").read_text())
    one = row(arm(), "What is 7 + 7?")

    assert rows[6]["exact_match/value"] is False
    assert (one.error, one.scores) == ("RuntimeError: the model server went away", {})


def test_a_scorer_that_failed_is_lost():
    assert row(arm(), "What is 8 + 8?").lost == {"brevity": "the judge went away"}


def test_a_scorer_without_feedback_does_not_apply_and_feedback_without_a_value_is_lost(table):
    def change(rows):
        for row in rows[1:3]:
            row["brevity/value"] = None
        trace = json.loads(rows[1]["trace"])
        trace["info"]["assessments"] = []
        rows[1]["trace"] = json.dumps(trace)

    (results,) = table(change).results

    assert results.rows[1].scores["brevity"] is None
    assert results.rows[2].lost == {"brevity": "the scorer gave no value"}


def test_inputs_that_recur_are_repeats_of_a_sample(table):
    (results,) = table(lambda rows: rows.extend([*rows])).results

    assert (results.repeats, len({one.sample for one in results.rows})) == (2, len(results.rows) // 2)


def test_an_input_that_stands_twice_in_the_dataset_costs_the_others_no_repeat(table):
    (results,) = table(lambda rows: rows.append(rows[0])).results

    assert (results.repeats, results.rows[-1].repeat, results.rows[-1].sample) == (1, 0, "What is 1 + 1? (2)")


def test_several_inputs_are_named_together(table):
    def change(rows):
        for row in rows:
            row["trace"] = row["trace"].replace('{\\"question\\":', '{\\"n\\": 1, \\"question\\":')

    assert table(change).results[0].rows[0].sample == '{"n":1,"question":"What is 1 + 1?"}'


def test_values_that_are_lists_are_left_out_with_a_note(table):
    def change(rows):
        rows[0]["brevity/value"] = [0.5, 0.5]

    imported = table(change)

    assert imported.notes == ["v2.json: the values of 'brevity' are no single number or word, left out"]
    assert set(imported.results[0].rows[0].scores) == {"exact_match", "clear"}


def test_yes_and_true_pass_and_the_direction_of_a_number_is_not_declared():
    assert arm().facts == {name: MetricFacts(name=name, low=0.0, high=1.0) for name in ("clear", "exact_match")}


def test_without_pyarrow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(SpecError, match=r'needs pyarrow: pip install "pytest-crucible\[parquet\]"'):
        arm("mlflow-genai-v2.parquet")
