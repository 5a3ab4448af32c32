"""Reports of pydantic-evals: runs of a case, what failed, and evaluators that give a bool, a number, text or nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import Results
from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"


def arm(name: str = "pydantic-evals-v2.json") -> Results:
    (results,) = read(FILES / name).results
    return results


def row(results: Results, sample: str, repeat: int = 0):
    (one,) = [one for one in results.rows if (one.sample, one.repeat) == (sample, repeat)]
    return one


@pytest.fixture
def report(tmp_path):
    """Return what is read from the report of v2 after a change."""

    def changed(change) -> Results:
        document = json.loads((FILES / "pydantic-evals-v2.json").read_text())
        change(document)
        (tmp_path / "report.json").write_text(json.dumps(document))
        return arm(tmp_path / "report.json")

    return changed


def evaluation(value, evaluator: str, argument: str) -> dict:
    source = {"name": evaluator, "arguments": [argument]}
    return {"name": evaluator, "value": value, "reason": None, "source": source}


def failure(evaluator: str, argument: str) -> dict:
    source = {"name": evaluator, "arguments": [argument]}
    return {"name": evaluator, "error_message": "gone", "error_stacktrace": "", "source": source}


def test_the_runs_of_a_case_are_repeats_of_its_sample():
    assert Counter(one.sample for one in arm().rows) == {f"sum-{k}": 2 for k in range(1, 9)}


def test_assertions_scores_labels_and_the_task_s_own_metrics_are_metrics():
    one = row(arm(), "sum-1")

    assert one.scores == {
        "EqualsExpected": False, "MaxDuration": True, "brevity": 0.0, "shape": "word", "output_tokens": 2, "retries": 1,
    }  # fmt: skip
    assert (one.reply.text, one.reply.output_tokens, one.expected) == ("a thousand", 2, "2")
    assert (one.input, one.metadata) == ("What is 1 + 1?", {"topic": "sums"})
    assert one.reply.latency_s > 0


def test_a_metric_that_a_case_lacks_does_not_apply():
    assert row(arm(), "sum-2").scores["retries"] is None


def test_a_case_that_failed_is_lost():
    one = row(arm(), "sum-7", repeat=1)

    assert (one.error, one.scores, one.lost) == ("RuntimeError: the model server went away", {}, {})


def test_an_evaluator_that_failed_loses_every_metric_that_it_gives_elsewhere():
    one = row(arm(), "sum-8")

    assert one.lost == dict.fromkeys(["brevity", "shape"], "RuntimeError: the judge went away")
    assert one.scores["EqualsExpected"] is True


def test_of_two_evaluators_of_one_name_the_second_keeps_its_metric_where_the_first_fails(report):
    """The harness numbers the names of each case anew: there, the second has the name of the first."""

    def change(document):
        document["cases"] = document["cases"][2:4]
        whole, failed = document["cases"]
        whole["assertions"] = {
            "Contains": evaluation(True, "Contains", "a"),
            "Contains_2": evaluation(True, "Contains", "b"),
        }
        failed["assertions"] = {"Contains": evaluation(False, "Contains", "b")}
        failed["evaluator_failures"] = [failure("Contains", "a")]

    one = row(report(change), "sum-2", repeat=1)

    assert (one.scores["Contains_2"], one.lost) == (False, {"Contains": "gone"})


def test_a_null_is_lost(report):
    """As older versions wrote NaN."""

    def change(document):
        document["cases"][0]["scores"]["brevity"]["value"] = None

    assert row(report(change), "sum-1").lost == {"brevity": "the evaluator gave no value"}


def test_an_assertion_is_better_true_and_no_report_declares_the_direction_of_a_score():
    assert arm().facts == {
        name: MetricFacts(name=name, low=0.0, high=1.0) for name in ("EqualsExpected", "MaxDuration")
    }


def test_a_metric_of_the_task_does_not_replace_an_evaluation_of_its_name(report):
    def change(document):
        document["cases"][0]["metrics"]["brevity"] = 99

    assert row(report(change), "sum-1").scores["brevity"] == 0.0


def test_the_failures_of_a_report_come_after_its_cases(report):
    results = report(lambda document: document.update(cases=document["cases"][:1]))

    assert [bool(one.error) for one in results.rows] == [False, True, True]


def test_a_report_of_an_older_version(tmp_path):
    """As 0.2.20 wrote it: without failures, runs and the name of the dataset."""
    result = {"name": "Equals", "value": True, "reason": None, "source": {"name": "Equals", "arguments": None}}
    case = {"name": "a", "inputs": "x", "metadata": None, "expected_output": "x", "output": {"y": 1}, "metrics": {}}
    case |= {"attributes": {}, "scores": {}, "labels": {}, "assertions": {"Equals": result}}
    case |= {"task_duration": 1e-6, "total_duration": 1e-3, "trace_id": "", "span_id": ""}
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"name": "task", "cases": [case]}))
    results = arm(path)

    assert (results.task, results.arm, results.rows[0].scores) == ("pydantic-evals", "task", {"Equals": True})
    assert results.rows[0].reply.text == '{"y":1}'


def test_a_dataset_is_no_report(tmp_path):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"name": "sums", "cases": [{"name": "a", "inputs": "x", "expected_output": "y"}]}))

    with pytest.raises(SpecError, match="was not recognised"):
        read(path)
