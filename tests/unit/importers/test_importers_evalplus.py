"""Results of EvalPlus: completions are repeats, and the further tests count only with the first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.tasks import group_tasks
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"
V2 = FILES / "evalplus-v2_eval_results.json"


@pytest.fixture
def changed(tmp_path):
    def write(change, name: str = "v2_eval_results.json"):
        document = json.loads(V2.read_text())
        change(document)
        path = tmp_path / "mistral" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document))
        return read(path)

    return write


def scores(imported, problem: str) -> list[dict]:
    return [dict(row.scores) for row in imported.results[0].rows if row.sample == problem]


def test_both_completions_of_a_problem_are_scored():
    imported = read(V2)

    assert scores(imported, "HumanEval/1") == [{"base": False, "plus": False}] * 2
    assert scores(imported, "HumanEval/6") == [{"base": True, "plus": False}] * 2
    assert imported.results[0].rows[0].reply.text.endswith("return 0\n")


@pytest.mark.parametrize("status", ["fail", "timeout"])
def test_a_completion_that_never_ends_is_a_failure(changed, status):
    def change(document):
        document["eval"]["HumanEval/7"][0]["base_status"] = status

    assert scores(changed(change), "HumanEval/7")[0] == {"base": False, "plus": False}


def test_means_are_those_that_evalplus_has_printed():
    """pass@1: 0.750 of the base tests, 0.625 with the further tests."""
    rows = read(V2).results[0].rows

    assert sum(row.scores["base"] for row in rows) / len(rows) == 0.75
    assert sum(row.scores["plus"] for row in rows) / len(rows) == 0.625


def test_who_passes_only_the_further_tests_does_not_pass(changed):
    def change(document):
        document["eval"]["HumanEval/1"][0]["plus_status"] = "pass"

    assert scores(changed(change), "HumanEval/1")[0] == {"base": False, "plus": False}


def test_with_the_base_tests_only_there_is_one_metric(changed):
    def change(document):
        for completion in (one for completions in document["eval"].values() for one in completions):
            completion["plus_status"] = None

    assert scores(changed(change), "HumanEval/2") == [{"base": True}] * 2


def test_a_file_of_a_folder_is_named_by_the_folder(changed):
    assert changed(lambda document: None, "eval_results.json").results[0].arm == "mistral"


def test_two_versions_of_a_dataset_are_not_compared(changed):
    other = changed(lambda document: document.update(hash="x"))

    with pytest.raises(SpecError, match="no sample in common with the same input"):
        group_tasks([read(V2), other])
