"""Runs of OpenCompass: an example is a sample, its runs are repeats, and an evaluator without details is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read, read_results
from pytest_crucible.importers.results import Results
from pytest_crucible.importers.tasks import group_tasks
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports" / "opencompass"


def arm(dataset: str, folder: Path = FILES, model: str = "v2") -> Results:
    (results,) = read(folder / "results" / model / f"{dataset}.json").results
    return results


def test_an_example_is_a_sample_with_its_reply():
    first, second, *_ = arm("sums").rows

    assert (first.sample, first.scores, first.lost) == ("sums_0", {"correct": False}, {})
    assert (second.reply.text, second.expected, second.scores) == ("4", ["4"], {"correct": True})


@pytest.mark.parametrize("model", ["v1", "v2"])
@pytest.mark.parametrize("dataset", ["sums", "sums_twice", "sums_choice"])
def test_the_mean_is_opencompass_own(dataset, model):
    document = json.loads((FILES / "results" / model / f"{dataset}.json").read_text())
    (total,) = [value for name, value in document.items() if name != "details"]
    scores = [one.scores["correct"] for one in arm(dataset, model=model).rows]

    assert 100 * sum(scores) / len(scores) == total


def test_runs_of_a_dataset_are_repeats_with_the_replies_in_their_order(tmp_path):
    folder = shutil.copytree(FILES, tmp_path / "run")
    path = folder / "predictions" / "v2" / "sums_twice.json"
    predictions = json.loads(path.read_text())
    predictions["9"]["prediction"] = "the second run of the second example"
    path.write_text(json.dumps(predictions))
    results = arm("sums_twice", folder)

    assert len(results.rows) == 16
    assert {one.sample for one in results.rows} == {f"sums_twice_{k}" for k in range(8)}
    (marked,) = [one for one in results.rows if one.reply.text.startswith("the second")]
    assert (marked.sample, marked.repeat) == ("sums_twice_1", 1)


def test_choices_by_perplexity_are_read():
    first, second, *_ = arm("sums_choice").rows

    assert (first.scores, second.scores) == ({"correct": False}, {"correct": True})


def test_a_file_alone_has_no_replies(tmp_path):
    path = shutil.copy(FILES / "results" / "v2" / "sums.json", tmp_path)

    assert {one.reply for one in read(Path(path)).results[0].rows} == {None}


def test_a_run_that_lacks_a_value_is_lost(tmp_path):
    folder = shutil.copytree(FILES, tmp_path / "run")
    path = folder / "results" / "v2" / "sums_twice.json"
    document = json.loads(path.read_text())
    document["details"][0]["correct"] = [True]
    path.write_text(json.dumps(document))

    assert [one.lost for one in arm("sums_twice", folder).rows[:2]] == [{}, {"correct": "the evaluator gave no value"}]


def test_an_evaluator_without_details_is_refused_with_the_way_out():
    with pytest.raises(SpecError, match=r"its evaluator has only a total.*write a table with a row for each sample"):
        arm("sums_accuracy")


def test_a_whole_run_has_an_arm_for_each_model_and_a_note_for_what_is_left_out():
    files = read_results(FILES)

    assert {(task.name, *(one.arm for one in task.arms)) for task in group_tasks(files, candidate="v2")} == {
        ("sums", "v2", "v1"),
        ("sums_twice", "v2", "v1"),
        ("sums_choice", "v2", "v1"),
    }
    assert [note.rpartition("/")[2].partition(" ")[0] for file in files for note in file.notes] == [
        "sums_accuracy.json"
    ] * 2


def test_a_directory_of_nothing_but_totals_is_refused(tmp_path):
    shutil.copy(FILES / "results" / "v2" / "sums_accuracy.json", tmp_path)

    with pytest.raises(SpecError, match="only a total"):
        read_results(tmp_path)
