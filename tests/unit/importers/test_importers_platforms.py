"""Evaluations that MLflow, LangSmith, Phoenix and Braintrust export: samples, repeats, and what is lost."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from dataclasses import replace

import pytest
from imported_files import FILES, field, find, find_row, read_arm, read_changed

from pytest_crucible.importers.formats import read
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

MLFLOW, LANGSMITH, PHOENIX, BRAINTRUST = (
    "mlflow-genai-v2.json", "langsmith-v2.jsonl", "phoenix-v2.json", "braintrust-v2.json",
)  # fmt: skip
GONE = "RuntimeError('the model server went away')"
SAMPLES = [
    (MLFLOW, "What is 1 + 1?", {
        "input": {"question": "What is 1 + 1?"}, "expected": {"expected_response": "2"}, "metadata": {"topic": "sums"},
        "reply": "a thousand", "scores": {"exact_match": False, "brevity": 0.0, "clear": False},
    }),
    (MLFLOW, "What is 7 + 7?", {"error": "RuntimeError: the model server went away", "scores": {}}),
    (MLFLOW, "What is 8 + 8?", {"lost": {"brevity": "the judge went away"}}),
    (LANGSMITH, "What is 1 + 1?", {
        "scores": {"exact_match": False, "brevity": 0.0, "tone": "wordy"}, "expected": {"answer": "2"}, "reply": "a thousand",
    }),
    (LANGSMITH, "What is 7 + 7?", {"error": GONE, "scores": {}, "reply": None}),
    (LANGSMITH, "What is 8 + 8?", {"lost": {"brevity": "the evaluator gave no value"}}),
    (PHOENIX, "What is 1 + 1?", {
        "scores": {"exact_match": 0.0, "brevity": 0.0, "tone": "wordy"}, "expected": {"answer": "2"}, "reply": "a thousand",
    }),
    (PHOENIX, "What is 7 + 7?", {"error": GONE, "scores": {}, "reply": None}),
    (PHOENIX, "What is 8 + 8?", {"lost": {"brevity": "RuntimeError('the judge went away')"}}),
    (BRAINTRUST, "What is 1 + 1?", {"scores": {"exact_match": 0.0, "brevity": 0.0, "even": None}, "lost": {}}),
    (BRAINTRUST, "What is 3 + 3?", {
        "scores": {"exact_match": 1.0, "brevity": 0.9, "even": 1.0}, "expected": "6", "reply": "6",
        "metadata": {"topic": "odd"},
    }),
    (BRAINTRUST, "What is 7 + 7?", {"error": "the model server went away", "scores": {}, "lost": {}}),
    (BRAINTRUST, "What is 8 + 8?", {
        "lost": {"brevity": "RuntimeError: the judge went away"}, "scores": {"exact_match": 1.0, "even": 1.0},
        "metadata": {"topic": "even"},
    }),
]  # fmt: skip


@pytest.mark.parametrize(("file", "sample", "expected"), SAMPLES)
def test_a_row_is_a_sample_and_failures_are_lost(file, sample, expected):
    row = find_row(read_arm(file), sample)

    assert {name: field(row, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("file", "scores_of"),
    [
        (MLFLOW, lambda runs: [runs[6]["exact_match/value"]]),
        (LANGSMITH, lambda runs: [run["feedback.exact_match"] for run in runs if run["error"]]),
        (PHOENIX, lambda runs: [annotation["score"] for run in runs if run["error"] for annotation in run["annotations"]
                                if annotation["name"] == "exact_match"]),
    ],
)  # fmt: skip
def test_the_files_have_scores_of_failed_runs_which_are_not_read(file, scores_of):
    text = find(file).read_text()
    scores = scores_of([json.loads(line) for line in text.splitlines()] if file == LANGSMITH else json.loads(text))

    assert scores and not any(scores)  # noqa: PT018


@pytest.mark.parametrize("file", [MLFLOW, LANGSMITH, PHOENIX])
def test_replies_have_a_latency(file):
    assert 0 < find_row(read_arm(file), "What is 1 + 1?").reply.latency_s < 1


@pytest.mark.parametrize("file", [LANGSMITH, PHOENIX, BRAINTRUST])
def test_repetitions_are_repeats(file):
    results = read_arm(file)

    assert results.repeats == 2
    assert Counter((row.sample, row.repeat) for row in results.rows) == Counter(
        (row.sample, repeat) for row in results.rows if row.repeat == 0 for repeat in (0, 1)
    )


@pytest.mark.parametrize(
    ("file", "other"),
    [(MLFLOW, "mlflow-genai-v2.csv"), (MLFLOW, "mlflow-genai-v2.parquet"), (LANGSMITH, "langsmith-v2.csv")],
)
def test_every_format_has_the_same_rows(file, other):
    assert read_arm(other).rows == read_arm(file).rows


def test_the_csv_of_phoenix_has_the_metadata_of_examples_too():
    rows = read_arm("phoenix-v2.csv").rows

    assert [replace(row, metadata={}) for row in rows] == read_arm(PHOENIX).rows
    assert {row.metadata["topic"] for row in rows} == {"odd", "even"}


@pytest.mark.parametrize("file", ["phoenix-v2.csv", BRAINTRUST])
def test_a_metadata_key_names_groups(file):
    assert {row.group for row in read_arm(file, group="topic").rows} == {"odd", "even"}


# -- MLflow ----------------------------------------------------------------------------------------------------------


def test_mlflow_scorers_without_feedback_do_not_apply_and_feedback_without_a_value_is_lost(tmp_path):
    def change(rows):
        for row in rows[1:3]:
            row["brevity/value"] = None
        trace = json.loads(rows[1]["trace"])
        trace["info"]["assessments"] = []
        rows[1]["trace"] = json.dumps(trace)

    (results,) = read_changed(tmp_path, MLFLOW, change).results

    assert results.rows[1].scores["brevity"] is None
    assert results.rows[2].lost == {"brevity": "the scorer gave no value"}


def test_mlflow_inputs_that_recur_are_repeats_of_a_sample(tmp_path):
    (results,) = read_changed(tmp_path, MLFLOW, lambda rows: rows.extend([*rows])).results

    assert (results.repeats, len({row.sample for row in results.rows})) == (2, len(results.rows) // 2)


def test_one_repeated_input_of_mlflow_is_a_second_sample(tmp_path):
    (results,) = read_changed(tmp_path, MLFLOW, lambda rows: rows.append(rows[0])).results

    assert (results.repeats, results.rows[-1].repeat, results.rows[-1].sample) == (1, 0, "What is 1 + 1? (2)")


def test_several_inputs_of_mlflow_are_named_together(tmp_path):
    def change(rows):
        for row in rows:
            row["trace"] = row["trace"].replace('{\\"question\\":', '{\\"n\\": 1, \\"question\\":')

    first = read_changed(tmp_path, MLFLOW, change).results[0].rows[0]

    assert first.sample == '{"n":1,"question":"What is 1 + 1?"}'


def test_mlflow_values_that_are_lists_are_left_out_with_a_note(tmp_path):
    imported = read_changed(tmp_path, MLFLOW, lambda rows: rows[0].update({"brevity/value": [0.5, 0.5]}))

    assert imported.notes == ["v2.json: the values of 'brevity' are no single number or word, left out"]
    assert set(imported.results[0].rows[0].scores) == {"exact_match", "clear"}


def test_mlflow_declares_yes_or_no_metrics_and_no_direction_of_numbers():
    assert read_arm(MLFLOW).facts == {
        name: MetricFacts(name=name, low=0.0, high=1.0) for name in ("clear", "exact_match")
    }


def test_parquet_without_pyarrow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(SpecError, match=r'needs pyarrow: pip install "pytest-crucible\[parquet\]"'):
        read_arm("mlflow-genai-v2.parquet")


# -- LangSmith and Phoenix -------------------------------------------------------------------------------------------


def test_a_langsmith_reply_of_several_outputs_is_json(tmp_path):
    run = {"inputs.q": "x", "outputs.a": "1", "outputs.b": "2", "error": None, "feedback.m": 1, "execution_time": None}
    path = tmp_path / "v.json"
    path.write_text(json.dumps([{**run, "example_id": "e"}]))

    assert read_arm(path).rows[0].reply.text == '{"a":"1","b":"2"}'


def test_a_phoenix_evaluator_that_did_not_run_is_lost(tmp_path):
    def change(runs):
        runs[0]["annotations"] = runs[0]["annotations"][:1]

    assert set(read_changed(tmp_path, PHOENIX, change).results[0].rows[0].lost) == {"exact_match", "tone"}


def test_a_phoenix_output_with_fields_is_json(tmp_path):
    imported = read_changed(tmp_path, PHOENIX, lambda runs: runs[0].update(output={"b": 1, "a": "x"}))

    assert imported.results[0].rows[0].reply.text == '{"a":"x","b":1}'


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_phoenix_experiment_without_annotations_is_refused(kind, tmp_path):
    path = tmp_path / f"v.{kind}"
    if kind == "json":
        path.write_text(json.dumps([{**run, "annotations": []} for run in json.loads(find(PHOENIX).read_text())]))
    else:
        with (FILES / "phoenix-v2.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        width = next(k for k, name in enumerate(rows[0]) if name.startswith("annotation_"))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(cells[:width] for cells in rows)

    with pytest.raises(SpecError, match="without annotations: run Phoenix's evaluators"):
        read(path)


# -- Braintrust ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "scores", "lost"),
    [
        # Braintrust's own handler of errors writes a zero.
        ({"brevity": "Traceback:\nValueError: no"}, {"exact_match": 1, "brevity": 0}, {"brevity": "ValueError: no"}),
        # A scorer of several scores fails under its own name.
        ({"judge": "ValueError: no"}, {"exact_match": 1}, dict.fromkeys(("brevity", "even"), "ValueError: no")),
    ],
)
def test_scores_of_a_failed_braintrust_scorer_are_lost(tmp_path, errors, scores, lost):
    def change(document):
        document["results"][0] |= {"metadata": {"scorer_errors": errors}, "scores": scores}

    assert read_changed(tmp_path, BRAINTRUST, change).results[0].rows[0].lost == lost


def test_a_braintrust_experiment_without_a_name_is_named_by_its_file(tmp_path):
    def change(document):
        document["summary"]["experiment_name"] = "sums"

    assert read_changed(tmp_path, BRAINTRUST, change, "tuned.json").results[0].arm == "tuned"


@pytest.mark.parametrize(
    ("row", "samples"),
    [
        ({"origin": {"object_type": "dataset", "id": "row-1"}}, ["row-1"]),
        ({"expected": "two"}, ['["What is 1 + 1?","two"]', '["What is 1 + 1?","2"]']),
    ],
)
def test_braintrust_samples_are_rows_of_datasets_or_inputs_with_their_expected_answers(tmp_path, row, samples):
    imported = read_changed(tmp_path, BRAINTRUST, lambda document: document["results"][0].update(row))

    assert [row.sample for row in imported.results[0].rows[: len(samples)]] == samples


def test_labels_of_braintrust_classifiers_are_left_out_with_a_note(tmp_path):
    def change(document):
        document["results"][0]["classifications"] = {"tone": [{"id": "terse", "label": "terse"}]}

    notes = read_changed(tmp_path, BRAINTRUST, change).notes

    assert notes == ["v2.json: the labels of classifiers are not scores, left out"]


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("line", "what"),
    [
        (json.loads(find(BRAINTRUST).read_text())["summary"], "a summary"),
        ({"id": "1", "_xact_id": "2", "root_span_id": "3", "span_id": "3", "scores": {"a": 1}}, "an export of events"),
    ],
)
def test_other_outputs_of_braintrust_are_refused_with_the_way_out(line, what, ending, tmp_path):
    path = tmp_path / f"results.{ending}"
    path.write_text(json.dumps([line] if ending == "json" else line) + "\n")

    with pytest.raises(SpecError, match=rf"is {what} of Braintrust.*as_json\(default=str\)"):
        read(path)


def test_another_file_named_as_braintrust_is_refused(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"id": 1, "score": 2}\n')

    with pytest.raises(SpecError, match="is not a file of braintrust"):
        read(path, "braintrust")
