"""Files of people's labels, as judges, `kept=` and `repairs=` read them."""

from __future__ import annotations

import csv

import pytest

from pytest_crucible import Sample
from pytest_crucible.datasets.labels import ID_COLUMNS, ReplyKey, hash_reply, read_labels, repair_expected, split_person
from pytest_crucible.records.errors import SpecError


def write(path, *rows, people=("anna",)):
    """Rows are sample, reply, stratum and the people's labels."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*ID_COLUMNS, *(name for person in people for name in (person, f"{person} note"))])
        for sample, reply, stratum, *labels in rows:
            size = {"all": 100, "agree": 90, "disagree": 10}[stratum]
            cells = [cell for label in labels for cell in (label, "")]
            writer.writerow(["r1", "test_it", sample, "", hash_reply(reply), stratum, size, *cells])
    return path


def test_a_label_counts_as_the_replies_of_its_stratum_over_the_labels_in_it(tmp_path):
    rows = [
        ("a", "x", "disagree", "good"),
        ("b", "x", "disagree", "poor"),
        ("c", "x", "agree", "good"),
        ("d", "x", "agree", "skip"),
    ]
    labels = read_labels(write(tmp_path / "labels.csv", *rows))

    assert {key.sample: (label.text, label.weight) for key, label in labels.items()} == {
        "a": ("good", 5.0),
        "b": ("poor", 5.0),
        "c": ("good", 90.0),
    }
    assert ReplyKey("test_it", "a", "", hash_reply("y")) not in labels


def test_whose_labels_they_are_is_named_where_there_are_several_people(tmp_path):
    path = write(tmp_path / "labels.csv", ("a", "x", "all", "good", "poor"), people=("anna", "ben"))

    (label,) = read_labels(path, "ben").values()
    assert (label.text, label.weight) == ("poor", 100.0)
    for person, sentence in (
        ("", "has labels of anna, ben: name one person of it, as in labels.csv:anna"),
        ("bem", "did you mean 'ben'"),
    ):
        with pytest.raises(SpecError, match=sentence):
            read_labels(path, person)
    assert split_person("C:\\labels.csv") == ("C:\\labels.csv", "")


def test_labels_repair_expected_values_of_the_same_type(tmp_path):
    samples = [
        Sample(id="a", input="1 + 1", expected="3"),
        Sample(id="b", input="2", expected=5),
        Sample(id="c", input=""),
    ]
    path = write(
        tmp_path / "labels.csv",
        ("a", "x", "all", "2"),
        ("a", "y", "all", "2"),
        ("b", "x", "all", "4"),
        people=["expected"],
    )

    repaired = repair_expected(samples, path, "", "test_it")

    assert [sample.expected for sample in repaired] == ["2", 4, None]
    assert repair_expected(samples, path, "", "test_other") == samples


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("a", "x", "all", "2"), ("a", "y", "all", "4")], "two expected values of sample 'a'"),
        ([("b", "x", "all", "four")], "sample 'b' has a number as its expected value"),
    ],
)
def test_a_repair_that_is_not_clear_is_refused(tmp_path, rows, sentence):
    samples = [Sample(id="a", input="1 + 1", expected="3"), Sample(id="b", input="2", expected=5)]

    with pytest.raises(SpecError, match=sentence):
        repair_expected(samples, write(tmp_path / "labels.csv", *rows, people=["expected"]), "", "test_it")
