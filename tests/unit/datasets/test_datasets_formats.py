"""Every format of a file: what was written is read, and what is wrong is named with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.parquet import write_table
from strategies import is_given, names, plain_values

from pytest_crucible import DatasetError, Sample
from pytest_crucible.datasets import load_file
from pytest_crucible.records.row_files import FORMATS

Rows = list[dict[str, str]]
ROWS = [
    {"id": "a", "input": 'say "hi",\n\nBob', "expected": "4", "group": "sums"},
    {"id": "b", "input": "Ωmega\tand\u2028more", "expected": "9", "group": "products"},
]
SAMPLES = [Sample(**row) for row in ROWS]
TEXTS = (".jsonl", ".json", ".csv", ".tsv")


def write_table_text(rows: Rows, delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def parquet(rows: Rows) -> bytes:
    file = io.BytesIO()
    write_table(pyarrow.Table.from_pylist(rows), file)
    return file.getvalue()


WRITE: dict[str, Callable[[Rows], bytes]] = {
    ".jsonl": lambda rows: "".join(f"{json.dumps(row)}\n" for row in rows).encode(),
    ".json": lambda rows: json.dumps(rows, indent=1).encode(),
    ".csv": lambda rows: write_table_text(rows, ","),
    ".tsv": lambda rows: write_table_text(rows, "\t"),
    ".parquet": parquet,
}


def write(folder: Path, ending: str, content: bytes) -> Path:
    path = folder / f"sums{ending}"
    path.write_bytes(content)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(DatasetError) as caught:
        load_file(path)
    return str(caught.value)


# -- what is read -------------------------------------------------------------------------------------------------


def test_every_format_is_tested():
    assert set(WRITE) == set(FORMATS)


@pytest.mark.parametrize("ending", WRITE)
def test_written_samples_are_read_back(tmp_path, ending):
    assert load_file(write(tmp_path, ending, WRITE[ending](ROWS))) == SAMPLES


@pytest.mark.parametrize("ending", TEXTS)
def test_a_byte_order_mark_is_ignored(tmp_path, ending):
    assert load_file(write(tmp_path, ending, b"\xef\xbb\xbf" + WRITE[ending](ROWS))) == SAMPLES


@pytest.mark.parametrize("ending", TEXTS)
def test_lines_may_end_as_on_windows(tmp_path, ending):
    rows = [{**row, "input": row["id"]} for row in ROWS]  # inside a cell, the line ends of CSV are text
    content = WRITE[ending](rows).replace(b"\n", b"\r\n")

    assert [sample.expected for sample in load_file(write(tmp_path, ending, content))] == ["4", "9"]


@pytest.mark.parametrize("ending", TEXTS)
def test_a_gzipped_file_is_unpacked_and_its_ids_have_its_name(tmp_path, ending):
    rows = [{"input": "x"}]
    path = write(tmp_path, f"{ending}.gz", gzip.compress(WRITE[ending](rows)))

    (sample,) = load_file(path)
    assert sample.id.startswith("sums-")


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=20)


@given(st.lists(texts, min_size=1, max_size=8), st.sampled_from(list(WRITE)))
def test_any_texts_survive_any_format(tmp_path_factory, inputs, ending):
    rows = [{"id": f"{number}", "input": text} for number, text in enumerate(inputs)]
    path = write(tmp_path_factory.getbasetemp(), ending, WRITE[ending](rows))

    assert [sample.input for sample in load_file(path)] == inputs


@given(st.lists(names, min_size=1, unique=True), plain_values.filter(is_given), st.sampled_from([".json", ".jsonl"]))
def test_any_json_survives_an_array_and_lines(tmp_path_factory, ids, value, ending):
    rows = [{"id": sample_id, "input": value} for sample_id in ids]
    path = write(tmp_path_factory.getbasetemp(), ending, WRITE[ending](rows))

    assert load_file(path) == [Sample(id=sample_id, input=value) for sample_id in ids]


def test_an_empty_cell_is_a_missing_value(tmp_path):
    path = write(tmp_path, ".csv", b"id,input,expected\na,x,\n")

    assert load_file(path) == [Sample(id="a", input="x", expected=None)]


def test_a_cell_may_be_longer_than_a_spreadsheet_allows(tmp_path):
    path = write(tmp_path, ".csv", b"input\n" + b"x" * 200_000 + b"\n")

    assert len(load_file(path)[0].input) == 200_000


def test_other_columns_are_metadata(tmp_path):
    path = write(tmp_path, ".tsv", b"input\tlevel\nx\thard\n")

    assert load_file(path) == [Sample(id="sums-2", input="x", metadata={"level": "hard"})]


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", WRITE)
def test_an_empty_file_of_any_format_is_an_error(tmp_path, ending):
    assert complaint(write(tmp_path, ending, b"")).startswith(
        (f"dataset {str(tmp_path / f'sums{ending}')!r} is empty", f"{tmp_path}/sums.parquet cannot be read as Parquet")
    )


@pytest.mark.parametrize("ending", WRITE)
def test_a_truncated_file_is_an_error(tmp_path, ending):
    content = WRITE[ending](ROWS)
    message = complaint(write(tmp_path, ending, content[: len(content) - 12]))

    place = {".parquet": "sums.parquet cannot be read as Parquet", ".jsonl": "line 2 of ", ".json": "line 8 of "}
    assert place.get(ending, "line 5 of ") in message


@pytest.mark.parametrize("ending", TEXTS)
def test_a_file_that_is_not_utf_8_is_an_error(tmp_path, ending):
    content = WRITE[ending]([{"id": "a", "input": "x"}, {"id": "b", "input": "?"}]).replace(b"?", "é".encode("latin-1"))
    line = content[: content.index(b"\xe9")].count(b"\n") + 1

    message = complaint(write(tmp_path, ending, content))
    assert message.startswith(f"line {line} of {tmp_path / f'sums{ending}'} is not UTF-8")


@pytest.mark.parametrize("ending", TEXTS)
def test_a_utf_16_file_is_an_error(tmp_path, ending):
    content = WRITE[ending](ROWS).decode().encode("utf-16")

    assert complaint(write(tmp_path, ending, content)).startswith("line 1 of ")


@pytest.mark.parametrize("ending", WRITE)
def test_a_repeated_id_of_a_file_is_an_error(tmp_path, ending):
    message = complaint(write(tmp_path, ending, WRITE[ending]([*ROWS, ROWS[0]])))

    assert "repeats the id 'a' of " in message
    assert message.startswith("row 3 of " if ending == ".parquet" else "line ")


@pytest.mark.parametrize(
    ("ending", "content", "sentence"),
    [
        (".csv", b"id,input,id\na,x,b\n", "line 1 of {path} names the column 'id' twice: the first line gives each column a"),
        (".csv", b"id,,input\na,x,b\n", "line 1 of {path} has a column without a name: the first line gives each column a "),
        (".csv", b"id,input\na,x\nb,y,z\n", "line 3 of {path} has 3 cells under 2 columns: quote cells that hold the sep"),
        (".tsv", b"id\tinput\na\n", "line 2 of {path} has 1 cells under 2 columns: quote cells that hold the separator"),
        (".csv", b'id,input\na,"x" y\n', "line 2 of {path} is not CSV (',' expected after '\"')"),
        (".csv", b"id,input\n", "dataset '{path}' is empty: an experiment needs at least one sample"),
        (".csv", b"id,question\na,x\n", "line 2 of {path} has no 'input' (it has 'id', 'question'): name the field with "
         "fields={{'input': 'question'}}"),
        (".csv", b"id,inputs\na,x\n", "line 2 of {path} has no 'input' (it has 'id', 'inputs'): name the field with "
         "fields={{'input': 'inputs'}}"),
        (".csv", b"id,input\na,\n", "line 2 of {path} has no 'input' (it has 'id'): name the field with "),
        (".json", b'{"id": "a"}', "line 1 of {path} is not a JSON array: write [{{...}}, {{...}}]"),
        (".json", b'[{"input": 1}\n {"input": 2}]', "line 2 of {path} lacks a comma or the closing bracket: write ["),
        (".json", b'[{"input": 1},\n 7]', "line 2 of {path} has a number: write objects"),
        (".json", b'[{"input": 1},\n]', "line 2 of {path} is not JSON (Expecting value)"),
        (".json", b'[{"input": 1},\n{"input": NaN}]', "line 2 of {path} is not JSON (NaN is not a JSON number; write null"),
        (".json", b'[{"input": 1}]\n[]', "line 2 of {path} has text after the array: write one array per file"),
        (".json", b"[]", "dataset '{path}' is empty: an experiment needs at least one sample"),
        (".json", b"[" * 100_000, "line 1 of {path} is nested more than 100 levels deep: flatten"),
        (".txt", b"x", "dataset '{path}' has an unknown format: its name must end in one of .jsonl, .json, .csv"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_an_error_in_one_sentence(tmp_path, ending, content, sentence):
    path = write(tmp_path, ending, content)

    assert complaint(path).startswith(sentence.format(path=path))
    assert "\n" not in complaint(path)
