"""Results of Braintrust: an input is a sample, a failed trial or scorer is lost, and its other outputs are refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.importers.results import Results
from pytest_crucible.records.errors import SpecError

FILES = Path(__file__).parents[2] / "data" / "imports"


def document() -> dict:
    return json.loads((FILES / "braintrust-v2.json").read_text())


def arm(path: Path = FILES / "braintrust-v2.json", group: str = "") -> Results:
    (results,) = read(path, group=group).results
    return results


def changed(folder: Path, **row) -> Results:
    """The same results with another first row."""
    written = document()
    written["results"][0] |= row
    path = folder / "v2.json"
    path.write_text(json.dumps(written))
    return arm(path)


def row(sample: str):
    return next(one for one in arm().rows if one.sample == sample)


def test_an_input_is_a_sample_with_its_scores():
    one = row("What is 3 + 3?")

    assert one.scores == {"exact_match": 1.0, "brevity": 0.9, "even": 1.0}
    assert (one.expected, one.reply.text, one.metadata) == ("6", "6", {"topic": "odd"})


def test_trials_are_repeats():
    assert arm().repeats == 2
    assert set(Counter(one.sample for one in arm().rows).values()) == {2}


def test_a_score_of_none_does_not_apply():
    one = row("What is 1 + 1?")

    assert (one.scores["even"], one.lost) == (None, {})


def test_a_failed_trial_is_lost():
    one = row("What is 7 + 7?")

    assert (one.error, one.scores, one.lost) == ("the model server went away", {}, {})


def test_a_failed_scorer_is_lost():
    one = row("What is 8 + 8?")

    assert one.lost == {"brevity": "RuntimeError: the judge went away"}
    assert one.scores == {"exact_match": 1.0, "even": 1.0}
    assert one.metadata == {"topic": "even"}


def test_the_zeros_that_braintrusts_own_handler_of_errors_writes_are_lost(tmp_path):
    errors = {"scorer_errors": {"brevity": "Traceback:\nValueError: no"}}

    assert changed(tmp_path, metadata=errors, scores={"exact_match": 1, "brevity": 0}).rows[0].lost == {
        "brevity": "ValueError: no"
    }


def test_a_failed_scorer_of_several_scores_loses_the_missing_ones(tmp_path):
    errors = {"scorer_errors": {"judge": "ValueError: no"}}

    assert set(changed(tmp_path, metadata=errors, scores={"exact_match": 1}).rows[0].lost) == {"brevity", "even"}


def test_a_metadata_key_names_groups():
    assert {one.group for one in arm(group="topic").rows} == {"odd", "even"}


def test_an_experiment_without_a_name_is_named_by_its_file(tmp_path):
    written = document()
    written["summary"]["experiment_name"] = "sums"
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps(written))

    assert arm(path).arm == "tuned"


def test_a_row_of_a_dataset_is_a_sample_by_its_id(tmp_path):
    assert changed(tmp_path, origin={"object_type": "dataset", "id": "row-1"}).rows[0].sample == "row-1"


def test_twins_that_expect_something_else_are_not_repeats(tmp_path):
    first, second = changed(tmp_path, expected="two").rows[:2]

    assert (first.sample, second.sample) == ('["What is 1 + 1?","two"]', '["What is 1 + 1?","2"]')


def test_labels_of_classifiers_are_left_out_with_a_note(tmp_path):
    written = document()
    written["results"][0]["classifications"] = {"tone": [{"id": "terse", "label": "terse"}]}
    path = tmp_path / "v2.json"
    path.write_text(json.dumps(written))

    assert read(path).notes == ["v2.json: the labels of classifiers are not scores, left out"]


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("line", "what"),
    [
        (document()["summary"], "a summary"),
        ({"id": "1", "_xact_id": "2", "root_span_id": "3", "span_id": "3", "scores": {"a": 1}}, "an export of events"),
    ],
)
def test_other_outputs_are_refused_with_the_way_out(line, what, ending, tmp_path):
    path = tmp_path / f"results.{ending}"
    path.write_text(json.dumps([line] if ending == "json" else line) + "\n")

    with pytest.raises(SpecError, match=rf"is {what} of Braintrust.*as_json\(default=str\)"):
        read(path)


def test_a_file_that_is_not_of_braintrust_is_not_called_an_output_of_it(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"id": 1, "score": 2}\n')

    with pytest.raises(SpecError, match="is not a file of braintrust"):
        read(path, "braintrust")
