"""Suites of nodes are compared with the driver's, and the first part that differs is named."""

from __future__ import annotations

import pytest

from pytest_crucible.datasets.load import load_file
from pytest_crucible.features.scale.suite_facts import missing_test, suite_problems, version_problems
from pytest_crucible.records.errors import DatasetError

FACTS = {
    "nodeid": "test_a.py::test_a",
    "function": "f1",
    "dataset": {"claims.jsonl": "d1"},
    "metric": {"accuracy": "m1", "length": "m2"},
    "adapter": {"v2": "a1"},
    "sampling": "s1",
}


def test_an_equal_suite_has_no_problem():
    assert list(suite_problems("gpu-2", FACTS, dict(FACTS))) == []


@pytest.mark.parametrize(
    ("part", "value", "what", "remedy"),
    [
        ("function", "f2", "the test function of test_a.py::test_a", "install the same commit there"),
        ("dataset", {"claims.jsonl": "d2"}, "dataset 'claims.jsonl'", "copy it there"),
        ("metric", {"accuracy": "m9", "length": "m2"}, "metric 'accuracy'", "install the same commit there"),
        ("adapter", {}, "adapter 'v2'", "configure it alike there"),
        (
            "sampling",
            "s2",
            "the timeout, or the scoring of reasoning, of test_a.py::test_a",
            "configure it alike there",
        ),
    ],
)
def test_the_part_that_differs_is_named(part, value, what, remedy):
    sentence = f"{what} on gpu-2 differs from the driver's: {remedy}"

    assert list(suite_problems("gpu-2", FACTS, FACTS | {part: value})) == [sentence]


def test_another_version_is_named():
    assert list(version_problems("gpu-2", {"ray": "2.60.0"}, {"ray": "2.59.0"})) == [
        "gpu-2 has ray 2.59.0, and the driver 2.60.0: install the same version there"
    ]


def test_a_missing_dataset_is_named_with_what_to_do(tmp_path):
    with pytest.raises(DatasetError) as raised:
        load_file(tmp_path / "claims.jsonl")

    sentence = missing_test("gpu-3", "test_a.py::test_a", [f"test_a.py::test_a: {raised.value}"])

    assert sentence == f"gpu-3 has no {tmp_path / 'claims.jsonl'}: copy it there"


def test_another_error_of_a_node_is_shown_as_it_is():
    assert (
        missing_test("gpu-3", "test_a.py::test_a", ["OPENAI_API_KEY is not set"]) == "gpu-3: OPENAI_API_KEY is not set"
    )
    assert missing_test("gpu-3", "test_a.py::test_a", []).startswith("gpu-3 has no test test_a.py::test_a")
