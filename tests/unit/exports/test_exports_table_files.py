"""Tables as files: what is written is what is read again, by others' readers."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.commands.export import EXPORTS
from pytest_crucible.exports.table_files import FORMATS, find_writer, write_csv, write_file, write_jsonl, write_parquet
from pytest_crucible.features.cns3.antagonist_section import COLUMNS as FINDINGS
from pytest_crucible.records import ExportTable
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.row_files import read_csv
from pytest_crucible.records.views import unguard_cell
from pytest_crucible.store.tables import EVENTS, OBSERVATIONS, REPEATS, REPLIES, TABLES, VARIANTS

COLUMNS = {"sample": "text", "epoch": "integer", "value": "number", "skipped": "flag", "facts": "json"}
TEXT = st.text(st.characters(codec="utf-8"))
PLAIN = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    PLAIN | TEXT, lambda parts: st.lists(parts, max_size=3) | st.dictionaries(TEXT, parts, max_size=3), max_leaves=5
)
ROWS = st.lists(
    st.tuples(
        st.none() | TEXT,
        st.none() | st.integers(-(2**53), 2**53),
        st.none() | st.floats(allow_nan=False, allow_infinity=False),
        st.none() | st.booleans(),
        JSON,
    ),
    max_size=5,
)


def write_bytes(write: Any, rows: Any, columns: Any = COLUMNS) -> bytes:
    file = io.BytesIO()
    count = write(ExportTable(columns=columns, rows=rows), file)
    assert not isinstance(rows, list) or count == len(rows)
    return file.getvalue()


@given(ROWS)
def test_json_lines_are_read_back_equal(rows):
    lines = write_bytes(write_jsonl, rows).decode().split("\n")

    assert lines.pop() == ""
    assert [tuple(json.loads(line).values()) for line in lines] == rows
    assert all(list(json.loads(line)) == list(COLUMNS) for line in lines)


@given(ROWS)
def test_csv_is_read_back_as_text(rows):
    """Whatever is in a text: commas, quotes, line ends, NUL. Only an empty one cannot be told from an unknown one."""
    read = list(csv.reader(io.StringIO(write_bytes(write_csv, rows).decode(), newline="")))

    assert read[0] == list(COLUMNS)
    assert len(read) == len(rows) + 1
    for (sample, repeat, value, skipped, facts), row in zip(read[1:], rows, strict=True):
        assert unguard_cell(sample) == (row[0] or "")
        assert repeat == ("" if row[1] is None else str(row[1]))
        assert (float(value) if value else None) == row[2]
        assert skipped == ("" if row[3] is None else str(row[3]))
        assert (unguard_cell(facts) if isinstance(row[4], str) else json.loads(facts or "null")) == row[4]


# Signs, what may stand before them, and apostrophes: drawn often enough to meet.
FORMULA_TEXT = st.text(st.sampled_from("=+-@\uff1d' \t\r\n\u00a0\ufeff\x001a"), min_size=1, max_size=6) | TEXT.filter(
    bool
)
EVERY_TABLE = {
    "observations": OBSERVATIONS,
    "replies": REPLIES,
    "repeats": REPEATS,
    "variants": VARIANTS,
    "events": EVENTS,
    "findings": FINDINGS,
}
CELLS = {
    "text": FORMULA_TEXT,
    "json": FORMULA_TEXT | st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "integer": st.integers(),
    "flag": st.booleans(),
}
# As spreadsheets see it: blanks and controls before the sign are skipped.
STARTS_AS_FORMULA = re.compile(r"[\s\x00-\x20\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]")


def test_every_export_table_is_tested():
    assert set(EVERY_TABLE) == {*TABLES, *EXPORTS}


@given(data=st.data(), name=st.sampled_from(sorted(EVERY_TABLE)))
def test_csv_cells_are_never_formulas_and_are_read_back_equal(data, name, tmp_path_factory):
    columns = EVERY_TABLE[name]
    row = tuple(data.draw(CELLS[kind]) for kind in columns.values())
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_bytes(write_bytes(write_csv, [row], columns))

    cells = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))[1]
    [(_, read)] = read_csv(path)

    assert not any(
        STARTS_AS_FORMULA.match(cell) for cell, value in zip(cells, row, strict=True) if isinstance(value, str)
    )
    assert read == {column: str(value) for column, value in zip(columns, row, strict=True)}


def test_numbers_are_written_as_numbers():
    assert write_bytes(write_csv, [("-5", -5, -0.5, True, -5)]).decode().splitlines()[1] == "'-5,-5,-0.5,True,-5"


def test_an_apostrophe_in_a_file_of_another_program_stays(tmp_path):
    (tmp_path / "table.csv").write_text("id,input\n1,'=1\n")

    assert list(read_csv(tmp_path / "table.csv")) == [(2, {"id": "1", "input": "'=1"})]


@given(ROWS)
def test_parquet_is_read_back_equal(rows):
    read = pyarrow.parquet.read_table(io.BytesIO(write_bytes(write_parquet, rows)))

    assert [str(field.type) for field in read.schema] == ["string", "int64", "double", "bool", "string"]
    for row, cells in zip(rows, read.to_pylist(), strict=True):
        assert tuple(cells.values())[:4] == row[:4]
        facts = cells["facts"]
        assert (facts if isinstance(row[4], str) or facts is None else json.loads(facts)) == row[4]


@pytest.mark.parametrize("write", [write_csv, write_jsonl, write_parquet])
def test_lone_surrogates_are_escaped(write):
    content = write_bytes(write, [("half \ud83d", 0, 0.0, True, {"input": "\udc00"})])

    assert b"half \\ud83d" in content
    assert b"\\udc00" in content


def test_infinities_are_strings_in_strict_json():
    content = write_bytes(write_jsonl, [("a", 0, float("inf"), True, {"value": float("-inf")})])

    assert json.loads(content) == {
        "sample": "a", "epoch": 0, "value": "inf", "skipped": True, "facts": {"value": "-inf"}
    }  # fmt: skip


def test_letters_of_all_scripts_are_written_unescaped():
    assert "naïve 你好 🎉" in write_bytes(write_jsonl, [("naïve 你好 🎉", 0, 0.0, True, None)]).decode()
    assert "naïve 你好 🎉" in write_bytes(write_csv, [("naïve 你好 🎉", 0, 0.0, True, None)]).decode()


@pytest.mark.parametrize("write", [write_csv, write_jsonl])
def test_rows_are_written_one_by_one(write):
    """A table is never in memory: most of it is in the file before its end is asked for."""
    file, sizes = io.BytesIO(), []

    def rows() -> Iterator[tuple[Any, ...]]:
        for k in range(20_000):
            if k % 5_000 == 0:
                sizes.append(file.tell())
            yield f"sample-{k}", k, 0.5, True, None

    write(ExportTable(columns=COLUMNS, rows=rows()), file)

    assert all(later - earlier > 50_000 for earlier, later in itertools.pairwise(sizes))


def test_parquet_has_a_row_group_for_each_ten_thousand_rows():
    rows = (("a", k, 0.5, True, None) for k in range(25_000))
    read = pyarrow.parquet.ParquetFile(io.BytesIO(write_bytes(write_parquet, rows)))

    assert [read.metadata.row_group(k).num_rows for k in range(read.num_row_groups)] == [10_000, 10_000, 5_000]


@pytest.mark.parametrize("extension", FORMATS)
def test_a_table_without_rows_has_its_columns(extension, tmp_path):
    path = tmp_path / f"empty.{extension}"
    count = write_file(ExportTable(columns=COLUMNS, rows=[]), path)

    assert count == 0
    if extension == "parquet":
        assert pyarrow.parquet.read_schema(path).names == list(COLUMNS)
    else:
        assert path.read_text() == ("sample,epoch,value,skipped,facts\n" if extension == "csv" else "")


@pytest.mark.parametrize(
    ("name", "ending"), [("runs.xls", "ends in '.xls'"), ("runs", "has no extension"), ("runs.CSV", "ends in '.CSV'")]
)
def test_an_unknown_format_is_an_error(name, ending):
    with pytest.raises(SpecError) as raised:
        find_writer(Path(name).suffix.removeprefix("."))

    assert str(raised.value) == f"the file {ending}: write one of .csv, .jsonl, .parquet"


def test_a_failed_export_keeps_the_earlier_file(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("before")

    def rows() -> Iterator[tuple[Any, ...]]:
        yield "a", 0, 0.5, True, None
        raise ValueError("the store is gone")

    with pytest.raises(ValueError, match="the store is gone"):
        write_file(ExportTable(columns=COLUMNS, rows=rows()), path)

    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("runs.csv", "before")]


def test_an_unwritable_path_is_an_error(tmp_path):
    path = tmp_path / "nowhere" / "runs.csv"
    with pytest.raises(SpecError) as raised:
        write_file(ExportTable(columns=COLUMNS, rows=[]), path)

    assert str(raised.value) == f"{str(path)!r} cannot be written: No such file or directory"
