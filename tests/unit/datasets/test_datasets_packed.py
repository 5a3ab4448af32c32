"""Many samples: packed in memory, and drawn from a large file."""

from __future__ import annotations

import csv
import gzip
import io
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import record

from pytest_crucible import DatasetError
from pytest_crucible.datasets import identify, load_file, load_rows, subset
from pytest_crucible.datasets.load import LARGE, LargeFile, is_large
from pytest_crucible.datasets.packed import MANY, PackedSamples, pack_if_many
from pytest_crucible.records import Sample
from pytest_crucible.records.row_files import FORMATS, read_parquet


def samples(count: int) -> list[Sample]:
    return [Sample(id=f"q{k}", input=f"{k}?", expected=str(k)) for k in range(count)]


@given(st.lists(record(Sample), max_size=5))
def test_packed_samples_are_unpacked_equal(given_samples):
    packed = PackedSamples(given_samples)

    assert list(packed) == given_samples
    assert len(packed) == len(given_samples)


def test_packed_samples_are_a_sequence():
    packed = PackedSamples(samples(10))

    assert packed[-1].id == "q9"
    assert [sample.id for sample in packed[2:8:3]] == ["q2", "q5"]
    assert Sample(id="q3", input="3?", expected="3") in packed
    with pytest.raises(IndexError, match="sample 10 is out of range for 10 samples"):
        packed[10]


@pytest.mark.parametrize("given_input", [np.float64(0.5), np.str_("a"), {1, 2}, lambda: 4, threading.Lock()])
def test_inputs_of_any_type_are_kept(given_input):
    sample = PackedSamples([Sample(id="a", input=given_input)])[0]

    assert type(sample.input) is type(given_input)


def test_only_large_datasets_are_packed():
    few, many = pack_if_many(samples(MANY)), pack_if_many(samples(MANY + 1))

    assert isinstance(few, list)
    assert isinstance(many, PackedSamples)
    assert list(many) == samples(MANY + 1)


def test_packed_samples_have_the_same_hash_and_subset():
    many = load_rows(samples(MANY + 5), name="sums")

    assert identify("sums", many).sha256 == identify("sums", samples(MANY + 5)).sha256
    assert list(subset(many, 7, seed=0)) == list(subset(samples(MANY + 5), 7, seed=0))
    assert isinstance(subset(many, MANY + 2, seed=0), PackedSamples)


def test_a_repeated_id_is_found_among_many():
    given_samples = [*samples(MANY + 5), Sample(id="q17", input="again")]

    with pytest.raises(DatasetError, match=rf"^sample {MANY + 6} of sums repeats the id 'q17' of sample 18 of sums"):
        load_rows(given_samples, name="sums")


Rows = list[dict[str, Any]]


def write(path: Path, rows: Rows) -> Path:
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        from pyarrow.parquet import write_table

        write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=7)
        return path
    text = "".join(f"{json.dumps(row)}\n" for row in rows) if ".jsonl" in path.suffixes else table(path, rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def table(path: Path, rows: Rows) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], dialect="excel-tab" if ".tsv" in path.suffixes else "excel")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def drawn(path: Path, limit: int, **fields: str) -> list:
    samples, total = LargeFile(path, fields).draw(limit, seed=3)
    assert total == len(load_file(path, fields=fields))
    return list(samples)


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".csv", ".tsv.gz", ".parquet"])
@pytest.mark.parametrize("named", [True, False], ids=["ids", "no-ids"])
@pytest.mark.parametrize("limit", [1, 12, 500])
def test_samples_of_a_large_file_equal_the_subset_of_the_whole_file(tmp_path, ending, named, limit):
    names = [{"id": f"q{k}"} if named else {} for k in range(40)]
    rows = [
        {**name, "input": f"{k}\n+ 1", "expected": str(k + 1), "level": "ab"[k % 2]} for k, name in enumerate(names)
    ]
    path = write(tmp_path / f"sums{ending}", rows)

    assert drawn(path, limit) == list(subset(load_file(path), limit, seed=3))


@given(
    key=st.sampled_from(["id", "ключ", "a/b", 'a"b', "a\nb"]),
    ids=st.lists(st.text(min_size=1).filter(str.strip) | st.integers(), min_size=1, max_size=20, unique_by=str),
    ascii_only=st.booleans(),
)
def test_escaped_names_of_the_id_field_are_read(tmp_path_factory, key, ids, ascii_only):
    path = tmp_path_factory.getbasetemp() / "keys.jsonl"
    lines = [json.dumps({"input": "x", key: sample_id}, ensure_ascii=ascii_only) + "\n" for sample_id in ids]
    path.write_text("".join(lines).replace("a/b", "a\\/b"), encoding="utf-8")

    assert drawn(path, 3, id=key) == list(subset(load_file(path, fields={"id": key}), 3, seed=3))


def test_rows_that_are_not_drawn_are_not_parsed(tmp_path):
    path = tmp_path / "sums.jsonl"
    lines = [f'{{"input": {k}}}\n' for k in range(200)]
    chosen = {
        sample.input for sample in LargeFile(write(path, [json.loads(line) for line in lines]), {}).draw(5, seed=0)[0]
    }
    path.write_text("".join(line if k in chosen else "{ not JSON\n" for k, line in enumerate(lines)))

    samples, total = LargeFile(path, {}).draw(5, seed=0)

    assert {sample.input for sample in samples} == chosen
    assert total == 200


def test_row_groups_without_a_drawn_row_are_not_read(tmp_path):
    ParquetFile = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed").ParquetFile  # noqa: N806

    path = write(tmp_path / "sums.parquet", [{"input": f"{k}" * 50} for k in range(70)])
    column = ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin : begin + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)

    assert [number for number, _ in read_parquet(path, only={30, 69})] == [30, 69]
    with pytest.raises(DatasetError, match="cannot be read as Parquet"):
        list(read_parquet(path, only={2}))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"input": 1}, {"input": 2, "id": 1}], "line 1 of {path} has no 'id' but others have one: give it to all"),
        ([{"input": 1, "id": 1}, {"input": 2}], "line 2 of {path} has no 'id' but others have one: give it to all"),
        (
            [{"input": 1, "id": 1}, {"input": 2, "id": None}],
            "line 2 of {path} has no 'id' but others have one: give it",
        ),
        ([{"input": None}], "line 1 of {path} has no value for 'input' (null)"),
    ],
)
def test_wrong_rows_of_a_large_file_are_errors(tmp_path, rows, message):
    path = write(tmp_path / "sums.jsonl", rows)

    with pytest.raises(DatasetError) as caught:
        LargeFile(path, {}).draw(1, seed=0)
    assert str(caught.value).startswith(message.format(path=path))


@pytest.mark.parametrize("ending", FORMATS)
def test_only_large_files_with_readable_ids_are_drawn_from(tmp_path, ending):
    large, small = tmp_path / f"large{ending}", tmp_path / f"small{ending}"
    large.write_bytes(bytes(LARGE))
    small.write_bytes(bytes(LARGE - 1))

    assert is_large(large) == (ending != ".json")
    assert not is_large(small)
    assert not is_large(tmp_path / f"absent{ending}")
