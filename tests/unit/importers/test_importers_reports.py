"""Reports of DeepEval, OpenAI Evals, garak, Ragas and pydantic-evals: samples, repeats, and what is lost."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from imported_files import find, find_row, read_arm, read_changed

from pytest_crucible.importers.formats import read
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

GARAK, PYDANTIC = "garak-v2.report.jsonl", "pydantic-evals-v2.json"


# -- DeepEval and OpenAI Evals ---------------------------------------------------------------------------------------


def test_a_failed_judge_of_deepeval_loses_a_score_and_not_the_reply():
    row = find_row(read_arm("deepeval-v2.json"), "sum-8")

    assert row.scores == {"Exact_Match": 1.0}
    assert row.lost == {"Bias": "RuntimeError: the judge went away"}
    assert row.reply.text == "16"


def test_the_latest_run_of_deepeval_is_read(tmp_path):
    run = json.loads(find("deepeval-v2.json").read_text())
    (tmp_path / ".latest_test_run.json").write_text(json.dumps({"testRunData": run, "testRunLink": None}))

    assert read_arm(tmp_path / ".latest_test_run.json").rows == read_arm("deepeval-v2.json").rows


def test_a_deepeval_metric_that_passes_below_its_threshold_is_better_low():
    facts = read_arm("deepeval-v2.json").facts

    assert {name: fact.direction for name, fact in facts.items()} == {"Exact_Match": "higher", "Bias": "lower"}


def test_openai_evals_scores_by_match_and_by_metrics():
    v2 = read_arm("openai-evals-v2.jsonl")

    assert find_row(v2, "sums.dev.1").scores == {"match": False, "similarity": 0.25}
    assert find_row(v2, "sums.dev.8").error == "gone"
    assert v2.finished


# -- garak -----------------------------------------------------------------------------------------------------------


def edited_garak(tmp_path, edit):
    rows = [json.loads(line) for line in find(GARAK).read_text(encoding="utf-8").splitlines()]
    path = tmp_path / "report.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows if edit(row) is not False), encoding="utf-8")
    return read_arm(path)


def test_a_garak_attempt_is_a_sample_and_its_generations_are_repeats():
    results = read_arm(GARAK)
    row = results.rows[2]

    assert len(results.rows) == 16
    assert (row.sample, row.repeat, row.reply.text[:9]) == ("test.Test:1", 0, "The quick")
    assert row.input == [{"role": "user", "content": "The quick brown fox jumps over the lazy dog"}]
    assert set(row.scores) == {"always.Pass", "always.Random"}
    assert results.facts["always.Random"].direction == "lower"
    assert results.finished


def test_a_garak_run_that_was_cut_short_is_not_finished(tmp_path):
    results = edited_garak(
        tmp_path, lambda row: row["entry_type"] != "completion" and not (row.get("seq") == 3 and row["status"] == 2)
    )

    assert not results.finished
    assert set(results.planned) - {row.sample for row in results.rows} == {"test.Test:3"}


def test_a_garak_detector_without_a_score_is_lost_and_that_of_another_probe_does_not_apply(tmp_path):
    def edit(row):
        if row.get("status") == 2 and row["seq"] == 1:
            row["detector_results"]["always.Random"] = [None, 1.0]
            row["outputs"][1] = None
        if row.get("status") == 2 and row["seq"] == 2:
            del row["detector_results"]["always.Random"]

    results = edited_garak(tmp_path, edit)
    assert find_row(results, "test.Test:1").lost == {"always.Random": "the detector gave no score"}
    assert find_row(results, "test.Test:1", 1).error == "the generator gave no reply"
    assert find_row(results, "test.Test:2").scores["always.Random"] is None


# -- Ragas -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path):
    def write(*rows: dict):
        path = tmp_path / "v2.json"
        path.write_text(json.dumps(rows))
        return read(path)

    return write


def test_a_ragas_row_is_a_sample_with_its_scores():
    row = read_arm("ragas-v2.jsonl").rows[0]

    assert (row.sample, row.expected, row.reply.text) == ("What is 1 + 1?", "2", "a thousand")
    assert row.scores == {"exact_match": 0.0, "non_llm_string_similarity": 0.0, "brevity": 0.0}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_failed_ragas_metric_is_lost_in_every_format(ending):
    rows, others = (read_arm(f"ragas-v2.{form}").rows for form in ("jsonl", ending))

    assert rows[-1].lost == {"brevity": "the metric gave no value"}
    assert [(row.sample, row.scores, row.lost) for row in rows] == [
        (row.sample, row.scores, row.lost) for row in others
    ]


def test_only_metrics_of_ragas_itself_have_a_direction(table):
    scores = {"factual_correctness(mode=f1)": 0.5, "noise_sensitivity(mode=relevant)": 0.1, "politeness": 3}
    facts = table({"user_input": "q", "response": "r", **scores}).results[0].facts

    assert {name: fact.direction for name, fact in facts.items()} == {
        "factual_correctness_mode_f1": "higher", "noise_sensitivity_mode_relevant": "lower",
    }  # fmt: skip


def test_a_ragas_input_that_recurs_is_a_repeat_unless_its_reference_differs(table):
    rows = [("q", "a"), ("p", "a"), ("q", "a"), ("p", "b"), ("p", "a"), ("p", "b")]
    results = table(*({"user_input": q, "reference": a, "exact_match": 1.0} for q, a in rows)).results[0]

    assert [(row.sample, row.repeat) for row in results.rows] == [
        ("q", 0), ('["p","a"]', 0), ("q", 1), ('["p","b"]', 0), ('["p","a"]', 1), ('["p","b"]', 1),
    ]  # fmt: skip
    assert results.repeats == 2


def test_ragas_conversations_are_named_by_their_messages(table):
    messages = [{"content": "hello", "type": "human"}]
    row = table({"user_input": messages, "reference": "x", "m": 1}).results[0].rows[0]

    assert row.sample == json.dumps(messages, separators=(",", ":"))


def test_another_table_with_a_user_input_is_not_of_ragas(table):
    assert table({"user_input": "q", "response": "r", "id": "a", "score": 1.0}).harness == "table"


def test_a_ragas_dataset_without_scores_is_an_error(table):
    with pytest.raises(SpecError, match="has samples but no scores: write the table that"):
        table({"user_input": "q", "response": "r"})


# -- pydantic-evals --------------------------------------------------------------------------------------------------


def source(evaluator: str, argument: str | None) -> dict:
    return {"name": evaluator, "arguments": argument and [argument]}


def evaluation(value, evaluator: str, argument: str | None = None) -> dict:
    return {"name": evaluator, "value": value, "reason": None, "source": source(evaluator, argument)}


def test_the_runs_of_a_case_are_repeats_of_its_sample():
    assert Counter(row.sample for row in read_arm(PYDANTIC).rows) == {f"sum-{k}": 2 for k in range(1, 9)}


def test_assertions_scores_labels_and_metrics_of_the_task_are_metrics():
    row = find_row(read_arm(PYDANTIC), "sum-1")

    assert row.scores == {
        "EqualsExpected": False, "MaxDuration": True, "brevity": 0.0, "shape": "word", "output_tokens": 2, "retries": 1,
    }  # fmt: skip
    assert (row.reply.text, row.reply.output_tokens, row.expected) == ("a thousand", 2, "2")
    assert (row.input, row.metadata) == ("What is 1 + 1?", {"topic": "sums"})
    assert row.reply.latency_s > 0


def test_failed_cases_and_evaluators_are_lost_and_missing_metrics_do_not_apply():
    results = read_arm(PYDANTIC)
    failed, judged = find_row(results, "sum-7", 1), find_row(results, "sum-8")

    assert (failed.error, failed.scores, failed.lost) == ("RuntimeError: the model server went away", {}, {})
    assert judged.lost == dict.fromkeys(["brevity", "shape"], "RuntimeError: the judge went away")
    assert judged.scores["EqualsExpected"] is True
    assert find_row(results, "sum-2").scores["retries"] is None


def test_of_two_evaluators_of_one_name_the_second_keeps_its_metric_where_the_first_fails(tmp_path):
    """The harness numbers the names of each case from the start: there, the second has the name of the first."""

    def change(document):
        document["cases"] = document["cases"][2:4]
        whole, failed = document["cases"]
        whole["assertions"] = {
            "Contains": evaluation(True, "Contains", "a"), "Contains_2": evaluation(True, "Contains", "b"),
        }  # fmt: skip
        failed["assertions"] = {"Contains": evaluation(False, "Contains", "b")}
        failed["evaluator_failures"] = [
            {"name": "Contains", "error_message": "gone", "error_stacktrace": "", "source": source("Contains", "a")}
        ]

    row = find_row(read_changed(tmp_path, PYDANTIC, change).results[0], "sum-2", 1)

    assert (row.scores["Contains_2"], row.lost) == (False, {"Contains": "gone"})


def test_a_null_of_older_versions_is_lost_and_a_metric_of_the_task_replaces_no_evaluation(tmp_path):
    def write_null(document):
        document["cases"][0]["scores"]["brevity"]["value"] = None

    def write_metric(document):
        document["cases"][0]["metrics"]["brevity"] = 99

    lost, shadowed = (
        find_row(read_changed(tmp_path, PYDANTIC, change).results[0], "sum-1") for change in (write_null, write_metric)
    )

    assert lost.lost == {"brevity": "the evaluator gave no value"}
    assert shadowed.scores["brevity"] == 0.0


def test_reports_declare_the_direction_of_assertions_only():
    assert read_arm(PYDANTIC).facts == {
        name: MetricFacts(name=name, low=0.0, high=1.0) for name in ("EqualsExpected", "MaxDuration")
    }


def test_the_failures_of_a_report_come_after_its_cases(tmp_path):
    imported = read_changed(tmp_path, PYDANTIC, lambda document: document.update(cases=document["cases"][:1]))

    assert [bool(row.error) for row in imported.results[0].rows] == [False, True, True]


def test_a_report_of_an_older_version_of_pydantic_evals_is_read(tmp_path):
    """Version 0.2.20 wrote no failures, runs and name of the dataset."""
    case = {"name": "a", "inputs": "x", "metadata": None, "expected_output": "x", "output": {"y": 1}, "metrics": {}}
    case |= {"attributes": {}, "scores": {}, "labels": {}, "assertions": {"Equals": evaluation(True, "Equals")}}
    case |= {"task_duration": 1e-6, "total_duration": 1e-3, "trace_id": "", "span_id": ""}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"name": "task", "cases": [case]}))
    results = read_arm(path)

    assert (results.task, results.arm, results.rows[0].scores) == ("pydantic-evals", "task", {"Equals": True})
    assert results.rows[0].reply.text == '{"y":1}'


def test_a_dataset_of_pydantic_evals_is_not_a_report(tmp_path):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"name": "sums", "cases": [{"name": "a", "inputs": "x", "expected_output": "y"}]}))

    with pytest.raises(SpecError, match="was not recognised"):
        read(path)
