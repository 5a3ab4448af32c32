"""The order in which replies are labelled."""

from __future__ import annotations

from contextlib import closing

import pytest
from label_runs import RUN, store_labelled_run

from pytest_crucible.datasets.labels import hash_reply
from pytest_crucible.features.view.label_queue import LabelQueue
from pytest_crucible.features.view.labelling import open_labelling, read_names, read_person
from pytest_crucible.records.errors import SpecError
from pytest_crucible.store.runs import RunStore

CANDIDATE = [k % 3 > 0 for k in range(40)]
BASELINE = [k % 3 > 0 or k < 12 for k in range(40)]
"""Four samples on which the arms disagree: 0, 3, 6 and 9."""


@pytest.fixture
def store(tmp_path):
    with closing(RunStore(str(store_labelled_run(tmp_path / "runs.db", CANDIDATE, BASELINE)))) as opened:
        yield opened


def test_the_order_has_every_reply_once_and_is_the_same_again(store):
    first, second = LabelQueue(store, RUN, "random"), LabelQueue(store, RUN, "random")
    keys = [first.turn(place).key for place in range(len(first))]

    assert keys[0].reply_sha256 == hash_reply(first.turn(0).text)
    assert len(first) == 80
    assert len(set(keys)) == 80
    assert keys == [second.turn(place).key for place in range(80)]
    assert [key.sample for key in keys] != sorted(key.sample for key in keys)
    assert first.turn(0).ids["stratum_size"] == "80"


def test_arms_that_reply_alike_have_one_label(tmp_path):
    path = store_labelled_run(tmp_path / "alike.db", CANDIDATE, BASELINE)
    with closing(RunStore(str(path))) as store:
        store.execute("UPDATE replies SET text = 'the same' WHERE position < 10")

        assert len(LabelQueue(store, RUN, "random")) == 70


def test_disagreements_come_three_to_one_with_the_sizes_of_both_strata(store):
    queue = LabelQueue(store, RUN, "disagreements")
    strata = [queue.turn(place).ids["stratum"] for place in range(len(queue))]

    assert queue.strata == {"agree": 72, "disagree": 8}
    assert strata[:10] == ["disagree"] * 3 + ["agree"] + ["disagree"] * 3 + ["agree"] + ["disagree"] * 2
    assert {queue.turn(place).ids["sample"] for place in range(3)} <= {"q0", "q3", "q6", "q9"}


def test_the_next_place_skips_what_is_labelled_and_goes_round(store):
    queue = LabelQueue(store, RUN, "random")
    keys = [queue.turn(place).key for place in range(len(queue))]

    assert queue.next_place(0, keys[:2]) == 2
    assert queue.next_place(79, keys[79:]) == 0
    assert queue.next_place(5, keys) is None


def test_a_run_that_has_not_finished_is_not_labelled(store, tmp_path):
    store.end_run(RUN, finished="2026-01-02", status="running")

    with pytest.raises(SpecError, match="has not finished: its samples come in order"):
        open_labelling(store, RUN, tmp_path / "labels.csv")


@pytest.mark.parametrize(
    ("run", "stratum", "sentence"),
    [
        ("other", "all", f"has labels of run other: name another file for those of run {RUN}"),
        (RUN, "agree", "was begun with --label-first disagreements: continue it with that"),
    ],
)
def test_labels_of_another_run_or_another_choice_are_not_mixed(store, tmp_path, run, stratum, sentence):
    path = tmp_path / "labels.csv"
    path.write_text(f"run,experiment,sample,variant,reply_sha256,stratum,stratum_size\n{run},t,q,,x,{stratum},4\n")

    with pytest.raises(SpecError, match=sentence):
        open_labelling(store, RUN, path, label_first="random")


def test_a_file_is_continued_as_it_was_begun(store, tmp_path):
    begun = open_labelling(store, RUN, tmp_path / "labels.csv", labeler="anna", label_first="disagreements")
    begun.file.record(begun.queue.turn(0).ids, "anna", "good", "", before="")

    continued = open_labelling(store, RUN, tmp_path / "labels.csv", labeler="anna")

    assert continued.queue.strata == {"agree": 72, "disagree": 8}
    assert continued.queue.next_place(0, continued.labelled_by("anna")) == 1


def test_names_of_labels_and_people_are_checked():
    assert read_names("good, nearly right, poor") == ("good", "nearly right", "poor")
    for names in ("", "good good", "a b c d e f g h i j", "x" * 41):
        with pytest.raises(SpecError, match="--label-names"):
            read_names(names)
    for person in ("", "run", "anna note", "=1", "a\nb", "x" * 41):
        with pytest.raises(SpecError, match="cannot name a column"):
            read_person(person)
