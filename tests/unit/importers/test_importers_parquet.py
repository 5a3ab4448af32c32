"""Parquet files are tables like any other."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet
import pytest

from pytest_crucible.importers.formats import read
from pytest_crucible.records.errors import SpecError


@pytest.fixture
def path(tmp_path):
    table = {"id": ["a", "b"], "score": [0.5, None], "reply": ["four", None], "steps": [[1, 2], None]}
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "results.parquet")
    return tmp_path / "results.parquet"


def test_a_parquet_file_is_a_table_and_its_nulls_are_lost(path):
    (results,) = read(path).results

    assert [(row.sample, row.scores, row.lost) for row in results.rows] == [
        ("a", {"score": 0.5}, {}),
        ("b", {}, {"score": "the table has no value"}),
    ]


def test_one_that_was_not_copied_whole_is_one_sentence(path):
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(SpecError, match=r"results.parquet cannot be read as Parquet \(.*\)$"):
        read(path)
