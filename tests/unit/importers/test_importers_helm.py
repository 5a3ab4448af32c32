"""Runs of HELM: instances, trials, perturbed twins, and the files beside the statistics."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import Results
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"
STATS = "per_instance_stats.json"


def arm(folder: str | Path = "helm-v2") -> Results:
    (results,) = read(FILES / folder / STATS).results
    return results


@pytest.fixture
def copied(tmp_path):
    return shutil.copytree(FILES / "helm-v2", tmp_path / "mistral")


def test_an_instance_is_a_sample_with_its_question_and_reply():
    (row,) = [row for row in arm().rows if row.sample == "id60"]

    assert (row.input, row.expected, row.reply.text) == ("Is 70 even or odd?", ["Even"], "B")
    assert row.scores["exact_match"] == 0.0


def test_means_are_those_that_helm_has_computed():
    """In its `stats.json`: 0.625."""
    scored = [row.scores["exact_match"] for row in arm().rows]

    assert sum(scored) / len(scored) == 0.625


def test_statistics_of_the_request_are_no_metrics():
    names = {name.removesuffix("_5") for name in arm().rows[0].scores}

    assert {name.removeprefix("quasi_").removeprefix("prefix_") for name in names} == {"exact_match"}
    assert arm().facts["exact_match_5"].high == 1.0


def test_trials_are_repeats_and_perturbed_twins_give_further_metrics():
    results = arm("helm-perturbed")

    assert (results.task, results.repeats) == ("simple_mcqa:data_augmentation=extra_space2", 2)
    assert len({(row.sample, row.repeat) for row in results.rows}) == len(results.rows) == 4
    assert {"exact_match", "exact_match.extra_space"} <= set(results.rows[0].scores)


def test_without_the_run_s_specification_the_folder_names_the_arm(copied):
    (copied / "run_spec.json").unlink()
    (copied / "scenario_state.json").unlink()
    results = arm(copied)

    assert (results.arm, results.task, results.rows[0].input) == ("mistral", "helm", None)


def test_a_damaged_file_beside_it_is_one_sentence(copied):
    (copied / "run_spec.json").write_text('{"name": ')

    with pytest.raises(SpecError, match=r"run_spec.json is not JSON \(.*\): copy the folder of the run again"):
        arm(copied)


def test_a_statistic_of_nothing_does_not_apply(copied):
    document = json.loads((copied / STATS).read_text())
    document[0]["stats"] = [{"name": {"name": "f1_score", "split": "test"}, "count": 0, "sum": 0, "sum_squared": 0}]
    (copied / STATS).write_text(json.dumps(document))

    assert arm(copied).rows[0].scores == {"f1_score": None}


def test_an_instance_that_is_there_twice_is_one_sentence(copied):
    document = json.loads((copied / STATS).read_text())
    (copied / STATS).write_text(json.dumps([*document, document[0]]))

    with pytest.raises(SpecError, match="has instance 'id60' twice in trial 0: ids must be unique"):
        arm(copied)
