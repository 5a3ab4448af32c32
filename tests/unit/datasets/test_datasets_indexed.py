"""Samples of a large file, which stay in it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_crucible import DatasetError
from pytest_crucible.datasets import identify, indexed, load_file, select, subset
from pytest_crucible.datasets.equal_inputs import find_equal_questions, group_equal_inputs
from pytest_crucible.datasets.indexed import IndexedSamples
from pytest_crucible.datasets.packed import MANY
from pytest_crucible.records import Selection
from pytest_crucible.records.serialize import canonical

ROWS = [{"id": f"q{k}", "input": f"{k} + é?", "expected": k, "group": f"g{k // 2}", "topic": [k]} for k in range(50)]


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file be a large one."""
    monkeypatch.setattr(indexed, "INDEXED_BYTES", 0)


def in_memory(path: Path) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed, "INDEXED_BYTES", 10**9)
        return load_file(path)


def write(path: Path, rows: list[dict[str, Any]] = ROWS, *, between: str = "\n") -> Path:
    if path.suffix == ".parquet":
        arrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(rows), path, row_group_size=7)
    else:
        path.write_bytes(between.join(map(json.dumps, rows)).encode())
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_samples_of_a_large_file_are_those_that_would_be_in_memory(tmp_path, name):
    path = write(tmp_path / name)
    samples, expected = load_file(path), in_memory(path)

    assert isinstance(samples, IndexedSamples)
    assert list(samples) == list(expected)
    assert [samples[k] for k in range(-50, 50)] == [*expected, *expected]
    assert samples[3:20:4] == expected[3:20:4]
    assert identify("rows", samples) == identify("rows", samples)
    assert identify("rows", samples).sha256 == identify("rows", expected).sha256
    with pytest.raises(IndexError, match="sample 50 is out of range for 50 samples"):
        samples[50]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    texts=st.lists(st.text(), min_size=1, max_size=8),
    blanks=st.lists(st.sampled_from(["\n", "\n\n", "\r\n", "\n  \n", "\n\u00a0\n"]), min_size=8, max_size=8),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_lines_are_found_whatever_is_between_them(tmp_path, texts, blanks, mark):
    lines = [json.dumps({"input": text}, ensure_ascii=k % 2 == 0) for k, text in enumerate(texts)]
    text = mark + "".join(f"{line}{blank}" for line, blank in zip(lines, blanks, strict=False))
    path = tmp_path / "rows.jsonl"
    path.write_bytes(text.encode("utf-8", "replace"))

    samples, expected = load_file(path), in_memory(path)

    assert list(samples) == [samples[k] for k in range(len(samples))] == list(expected)


def test_a_zipped_file_is_read_into_memory(tmp_path):
    import gzip

    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"input": 1}'))

    assert not isinstance(load_file(path), IndexedSamples)


def test_a_file_that_changes_while_it_is_in_use_is_reported(tmp_path):
    path = write(tmp_path / "rows.jsonl")
    samples = load_file(path)
    with path.open("a") as file:
        file.write("\n")

    with pytest.raises(DatasetError, match=r"rows\.jsonl has changed while it was in use: run the session again"):
        samples[0]


def test_a_file_that_is_replaced_keeps_its_samples(tmp_path):
    """An editor or a download replaces it so: the new one belongs to the next session."""
    path = write(tmp_path / "rows.jsonl")
    samples = load_file(path)
    write(tmp_path / "new.jsonl", ROWS[:1]).replace(path)

    assert samples[49].id == "q49"


def test_threads_read_samples_at_once(tmp_path):
    samples = load_file(write(tmp_path / "rows.jsonl"))

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda k: samples[k % 50].id, range(2000)))

    assert ids == [f"q{k % 50}" for k in range(2000)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a", "input": 1}, {"id": "a", "input": 2}], "line 2 of .* repeats the id 'a' of line 1"),
        ([{"id": "a", "input": 1}, {"input": 2}], "line 2 of .* has no 'id' but others have one"),
        ([{"id": "a", "question": 1}], "line 1 of .* has no 'input'"),
    ],
)
def test_errors_name_the_line(tmp_path, rows, message):
    with pytest.raises(DatasetError, match=message):
        load_file(write(tmp_path / "rows.jsonl", rows))


def test_equal_ids_among_many_are_found(tmp_path):
    rows = [{"id": f"q{k % MANY}", "input": k} for k in range(MANY + 1)]

    with pytest.raises(DatasetError, match=f"line {MANY + 1} of .* repeats the id 'q0' of line 1"):
        load_file(write(tmp_path / "rows.jsonl", rows))


def test_parts_of_it_are_those_of_samples_in_memory(tmp_path):
    path = write(tmp_path / "rows.jsonl")
    samples, expected = load_file(path), in_memory(path)
    chosen = Selection(of=50, seed=3, fold="1/2")

    assert subset(samples, None, seed=1) is samples
    assert list(subset(samples, 10, seed=1)) == list(subset(expected, 10, seed=1))
    assert list(select(samples, chosen)) == list(select(expected, chosen))


@pytest.mark.parametrize("count", [50, MANY + 3])
def test_equal_inputs_are_grouped_as_in_memory(tmp_path, count):
    rows = [{"id": f"q{k}", "input": f"{max(k, 2)}?"} for k in range(count)]
    samples = load_file(write(tmp_path / "rows.jsonl", rows))
    dataset = identify("rows", samples)

    assert find_equal_questions(samples) == {1: 0, 2: 0}
    assert group_equal_inputs(dataset).samples[1].joined_group == "sample q0 +2"


def test_an_index_takes_eight_bytes_a_sample(tmp_path):
    [index] = [load_file(write(tmp_path / "rows.jsonl"))._index]

    assert index._starts.itemsize * len(index._starts) == 8 * 50
    assert index._numbers is None
    assert canonical(index.row(49)[1]) == canonical(ROWS[49])
