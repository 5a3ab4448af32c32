"""Other libraries' datasets, with the real libraries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pytest_crucible import DatasetError, Sample
from pytest_crucible.datasets import identify, load_rows

ROWS = [{"id": "a", "input": "2 + 2", "expected": 4}, {"id": "b", "input": "3 * 3", "expected": 9}]
SAMPLES = [Sample(**row) for row in ROWS]


@pytest.mark.parametrize(
    ("library", "read"),
    [
        ("pandas", lambda pandas: pandas.DataFrame(ROWS)),
        ("polars", lambda polars: polars.DataFrame(ROWS)),
        ("polars", lambda polars: polars.LazyFrame(ROWS).filter(polars.col("id") != "c")),
        ("pyarrow", lambda pyarrow: pyarrow.Table.from_pylist(ROWS)),
    ],
    ids=["pandas", "polars", "lazy", "arrow"],
)
def test_tables_of_other_libraries_are_read_by_their_rows(library, read):
    assert load_rows(read(pytest.importorskip(library)), name="sums") == SAMPLES


def test_a_missing_cell_of_a_data_frame_is_a_missing_value():
    frame = pd.DataFrame({"input": ["x", "y", "z"], "expected": [1.5, np.nan, None], "at": [pd.NaT, None, pd.NA]})

    assert load_rows(frame, name="x") == [
        Sample(id="x-1", input="x", expected=1.5),
        Sample(id="x-2", input="y"),
        Sample(id="x-3", input="z"),
    ]


def test_numbers_of_a_data_frame_become_python_numbers():
    frame = pd.DataFrame({"input": pd.Series([1, 2], dtype="int8"), "expected": pd.array([1, None], dtype="Int64")})
    first, other = load_rows(frame, name="x")

    assert type(first.input) is int
    assert type(first.expected) is int
    assert other.expected is None
    assert identify("x", [first]).sha256 == identify("x", [Sample(id="x-1", input=1, expected=1)]).sha256


def test_the_columns_of_a_data_frame_are_mapped():
    frame = pd.DataFrame({"question": ["x"], "topic": ["sums"]})

    assert load_rows(frame, name="x", fields={"input": "question", "group": "topic"}) == [
        Sample(id="x-1", input="x", group="sums")
    ]


def test_a_hugging_face_dataset_is_read():
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets are not installed")
    whole = datasets.Dataset.from_list(ROWS)

    assert load_rows(whole, name="sums") == SAMPLES
    assert load_rows(whole.to_iterable_dataset(), name="sums") == SAMPLES
    with pytest.raises(
        DatasetError, match="a DatasetDict with 'train', 'test' is not a single dataset: pass one of its parts"
    ):
        load_rows(datasets.DatasetDict({"train": whole, "test": whole}), name="sums")


def test_inspect_samples_are_read():
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser

    messages = [ChatMessageSystem(content="Be short."), ChatMessageUser(content="2 + 2?")]
    samples = [
        inspect_ai.dataset.Sample(input="Which?", target="B", choices=["x", "y"], metadata={"level": 1}, id=7),
        inspect_ai.dataset.Sample(input=messages, target=["4", "four"], id="x"),
        inspect_ai.dataset.Sample(input="Anything?", id="y"),
    ]

    assert load_rows(inspect_ai.dataset.MemoryDataset(samples), name="x") == [
        Sample(id="7", input="Which?", expected="B", metadata={"level": 1, "choices": ["x", "y"]}),
        Sample(
            id="x",
            input=[{"role": "system", "content": "Be short."}, {"role": "user", "content": "2 + 2?"}],
            expected=["4", "four"],
        ),
        Sample(id="y", input="Anything?"),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        *(
            (rows, "cannot be used as a dataset: pass a list of samples, or a function")
            for rows in (5, None, lambda: None)
        ),
        ({"train": ROWS}, "a dict with 'train' is not a single dataset: pass one of its parts"),
    ],
)
def test_an_object_without_rows_is_an_error(rows, message):
    with pytest.raises(DatasetError, match=message):
        load_rows(rows, name="sums")


def test_class_labels_of_hugging_face_are_their_names():
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"input": datasets.Value("string"), "expected": datasets.ClassLabel(names=["no", "yes"])}
    )
    rows = datasets.Dataset.from_dict({"input": ["a", "b", "c"], "expected": [1, 0, -1]}, features=features)

    assert [sample.expected for sample in load_rows(rows, name="labelled")] == ["yes", "no", None]
    assert [sample.expected for sample in load_rows(rows.to_iterable_dataset(), name="stream")] == ["yes", "no", None]
