"""Runs of HELM, EvalPlus and OpenCompass: samples, repeats, and the files beside the scores."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from imported_files import FILES, find, read_arm, read_changed

from pytest_crucible.importers.formats import read, read_results
from pytest_crucible.importers.results import Results
from pytest_crucible.records.errors import SpecError
from pytest_crucible.runs.imported import group_tasks

STATS = "per_instance_stats.json"
EVALPLUS = "evalplus-v2_eval_results.json"
COMPASS = FILES / "opencompass"


# -- HELM ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def helm_run(tmp_path):
    """A copy of a run's folder."""
    return shutil.copytree(FILES / "helm-v2", tmp_path / "mistral")


def test_a_helm_instance_is_a_sample_with_its_question_and_reply():
    (row,) = [row for row in read_arm(f"helm-v2/{STATS}").rows if row.sample == "id60"]

    assert (row.input, row.expected, row.reply.text) == ("Is 70 even or odd?", ["Even"], "B")
    assert row.scores["exact_match"] == 0.0


def test_helm_scores_have_the_mean_that_helm_reports():
    """0.625 in its `stats.json`. Statistics of the request are not metrics."""
    results = read_arm(f"helm-v2/{STATS}")
    names = {name.removesuffix("_5") for name in results.rows[0].scores}

    assert sum(row.scores["exact_match"] for row in results.rows) / len(results.rows) == 0.625
    assert {name.removeprefix("quasi_").removeprefix("prefix_") for name in names} == {"exact_match"}
    assert results.facts["exact_match_5"].high == 1.0


def test_helm_trials_are_repeats_and_perturbed_twins_give_further_metrics():
    results = read_arm(f"helm-perturbed/{STATS}")

    assert (results.task, results.repeats) == ("simple_mcqa:data_augmentation=extra_space2", 2)
    assert len({(row.sample, row.repeat) for row in results.rows}) == len(results.rows) == 4
    assert {"exact_match", "exact_match.extra_space"} <= set(results.rows[0].scores)


def test_a_helm_run_without_its_specification_is_named_by_its_folder(helm_run):
    (helm_run / "run_spec.json").unlink()
    (helm_run / "scenario_state.json").unlink()
    results = read_arm(helm_run / STATS)

    assert (results.arm, results.task, results.rows[0].input) == ("mistral", "helm", None)


def test_a_damaged_file_beside_a_helm_run_is_an_error(helm_run):
    (helm_run / "run_spec.json").write_text('{"name": ')

    with pytest.raises(SpecError, match=r"run_spec.json is not JSON \(.*\): copy the folder of the run again"):
        read_arm(helm_run / STATS)


def test_a_helm_statistic_of_nothing_does_not_apply(tmp_path):
    stats = [{"name": {"name": "f1_score", "split": "test"}, "count": 0, "sum": 0, "sum_squared": 0}]
    imported = read_changed(tmp_path, f"helm-v2/{STATS}", lambda document: document[0].update(stats=stats))

    assert imported.results[0].rows[0].scores == {"f1_score": None}


def test_a_repeated_helm_instance_is_an_error(tmp_path):
    with pytest.raises(SpecError, match="has instance 'id60' twice in trial 0: ids must be unique"):
        read_changed(tmp_path, f"helm-v2/{STATS}", lambda document: document.append(document[0]))


# -- EvalPlus --------------------------------------------------------------------------------------------------------


def problem_scores(imported, problem: str) -> list[dict]:
    return [dict(row.scores) for row in imported.results[0].rows if row.sample == problem]


def test_both_completions_of_an_evalplus_problem_are_scored():
    imported = read(find(EVALPLUS))

    assert problem_scores(imported, "HumanEval/1") == [{"base": False, "plus": False}] * 2
    assert problem_scores(imported, "HumanEval/6") == [{"base": True, "plus": False}] * 2
    assert imported.results[0].rows[0].reply.text.endswith("return 0\n")


def test_evalplus_scores_have_the_means_that_evalplus_prints():
    """pass@1: 0.750 of the base tests, 0.625 with the further tests."""
    rows = read_arm(EVALPLUS).rows

    assert [sum(row.scores[name] for row in rows) / len(rows) for name in ("base", "plus")] == [0.75, 0.625]


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        ("HumanEval/7", {"base_status": "fail"}),
        ("HumanEval/7", {"base_status": "timeout"}),
        ("HumanEval/1", {"plus_status": "pass"}),  # The further tests count only with the first.
    ],
)
def test_an_evalplus_completion_that_fails_the_base_tests_passes_neither(tmp_path, problem, status):
    imported = read_changed(tmp_path, EVALPLUS, lambda document: document["eval"][problem][0].update(status))

    assert problem_scores(imported, problem)[0] == {"base": False, "plus": False}


def test_evalplus_with_the_base_tests_only_has_one_metric(tmp_path):
    def change(document):
        for completion in (completion for completions in document["eval"].values() for completion in completions):
            completion["plus_status"] = None

    assert problem_scores(read_changed(tmp_path, EVALPLUS, change), "HumanEval/2") == [{"base": True}] * 2


def test_an_evalplus_file_without_a_name_is_named_by_its_folder(tmp_path):
    imported = read_changed(tmp_path, EVALPLUS, lambda document: None, "mistral/eval_results.json")

    assert imported.results[0].arm == "mistral"


def test_two_versions_of_an_evalplus_dataset_are_not_compared(tmp_path):
    other = read_changed(tmp_path, EVALPLUS, lambda document: document.update(hash="x"))

    with pytest.raises(SpecError, match="no sample in common with the same input"):
        group_tasks([read(find(EVALPLUS)), other])


# -- OpenCompass -----------------------------------------------------------------------------------------------------


def compass_arm(dataset: str, folder: Path = COMPASS, model: str = "v2") -> Results:
    return read_arm(folder / "results" / model / f"{dataset}.json")


def test_an_opencompass_example_is_a_sample_with_its_reply():
    first, second, *_ = compass_arm("sums").rows
    choices = compass_arm("sums_choice").rows[:2]

    assert (first.sample, first.scores, first.lost) == ("sums_0", {"correct": False}, {})
    assert (second.reply.text, second.expected, second.scores) == ("4", ["4"], {"correct": True})
    assert [row.scores for row in choices] == [{"correct": False}, {"correct": True}]


@pytest.mark.parametrize("model", ["v1", "v2"])
@pytest.mark.parametrize("dataset", ["sums", "sums_twice", "sums_choice"])
def test_opencompass_scores_have_the_mean_of_its_file(dataset, model):
    document = json.loads((COMPASS / "results" / model / f"{dataset}.json").read_text())
    (total,) = [value for name, value in document.items() if name != "details"]
    scores = [row.scores["correct"] for row in compass_arm(dataset, model=model).rows]

    assert 100 * sum(scores) / len(scores) == total


def test_opencompass_runs_are_repeats_with_the_replies_in_their_order(tmp_path):
    folder = shutil.copytree(COMPASS, tmp_path / "run")
    path = folder / "predictions" / "v2" / "sums_twice.json"
    predictions = json.loads(path.read_text())
    predictions["9"]["prediction"] = "the second run of the second example"
    path.write_text(json.dumps(predictions))
    rows = compass_arm("sums_twice", folder).rows

    assert len(rows) == 16
    assert {row.sample for row in rows} == {f"sums_twice_{k}" for k in range(8)}
    (marked,) = [row for row in rows if row.reply.text.startswith("the second")]
    assert (marked.sample, marked.repeat) == ("sums_twice_1", 1)


def test_an_opencompass_file_alone_has_no_replies(tmp_path):
    path = shutil.copy(COMPASS / "results" / "v2" / "sums.json", tmp_path)

    assert {row.reply for row in read_arm(Path(path)).rows} == {None}


def test_an_opencompass_run_that_lacks_a_value_is_lost(tmp_path):
    def change(document):
        document["details"][0]["correct"] = [True]

    rows = read_changed(tmp_path, "opencompass/results/v2/sums_twice.json", change).results[0].rows

    assert [row.lost for row in rows[:2]] == [{}, {"correct": "the evaluator gave no value"}]


def test_an_opencompass_evaluator_without_details_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(SpecError, match=r"its evaluator has only a total.*write a table with a row for each sample"):
        compass_arm("sums_accuracy")
    shutil.copy(COMPASS / "results" / "v2" / "sums_accuracy.json", tmp_path)
    with pytest.raises(SpecError, match="only a total"):
        read_results(tmp_path)


def test_an_opencompass_folder_has_an_arm_for_each_model_and_notes_what_is_left_out():
    files = read_results(COMPASS)
    notes = [note.rpartition("/")[2].partition(" ")[0] for file in files for note in file.notes]

    assert {(task.name, *(arm.arm for arm in task.arms)) for task in group_tasks(files, candidate="v2")} == {
        (dataset, "v2", "v1") for dataset in ("sums", "sums_twice", "sums_choice")
    }
    assert notes == ["sums_accuracy.json"] * 2
