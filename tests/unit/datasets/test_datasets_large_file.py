"""Samples drawn from a file by the ids of its rows: the same ones as from the whole file, without parsing the others."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible import DatasetError
from pytest_crucible.datasets import load_file, subset
from pytest_crucible.datasets.formats import FORMATS, read_parquet
from pytest_crucible.datasets.load import LARGE, LargeFile, is_large

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
def test_the_samples_are_those_that_the_whole_file_would_give(tmp_path, ending, named, limit):
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
def test_an_id_is_found_however_json_writes_its_name(tmp_path_factory, key, ids, ascii_only):
    path = tmp_path_factory.getbasetemp() / "keys.jsonl"
    lines = [json.dumps({"input": "x", key: one}, ensure_ascii=ascii_only) + "\n" for one in ids]
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
    ("first", "second", "line"), [({}, {"id": 1}, 1), ({"id": 1}, {}, 2), ({"id": 1}, {"id": None}, 2)]
)
def test_an_id_that_only_some_rows_have(tmp_path, first, second, line):
    path = write(tmp_path / "sums.jsonl", [{"input": 1, **first}, {"input": 2, **second}])

    with pytest.raises(DatasetError) as caught:
        LargeFile(path, {}).draw(1, seed=0)
    assert str(caught.value) == (
        f"line {line} of {path} has no 'id' but others have one: give it to all samples or to none"
    )


def test_a_drawn_row_is_checked_as_any_other(tmp_path):
    path = write(tmp_path / "sums.jsonl", [{"input": None}])

    with pytest.raises(DatasetError, match=r"^line 1 of .*sums\.jsonl has no value for 'input' \(null\)"):
        LargeFile(path, {}).draw(1, seed=0)


@pytest.mark.parametrize("ending", FORMATS)
def test_only_large_files_of_formats_with_rows_are_drawn_from(tmp_path, ending):
    large, small = tmp_path / f"large{ending}", tmp_path / f"small{ending}"
    large.write_bytes(bytes(LARGE))
    small.write_bytes(bytes(LARGE - 1))

    assert is_large(large) == (ending != ".json")
    assert not is_large(small)
    assert not is_large(tmp_path / f"absent{ending}")
