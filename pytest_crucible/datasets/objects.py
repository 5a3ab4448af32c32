"""Rows of other libraries' datasets: pandas and polars frames, Arrow tables, Hugging Face datasets, Inspect samples.

They are recognised by their methods, so that none of these libraries is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pytest_crucible.records import Sample
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.type_names import describe_type

Rows = Iterable[Sample | Mapping[str, Any]]


def as_rows(dataset: Any) -> Rows:
    """Return the rows of a dataset object, read lazily. Raises DatasetError for a mapping of several datasets."""
    if hasattr(dataset, "iterrows") and hasattr(dataset, "isna"):
        return _frame_rows(dataset)
    if hasattr(dataset, "iter_rows") and hasattr(dataset, "columns"):
        return cast(Rows, dataset.iter_rows(named=True))
    if hasattr(dataset, "collect") and hasattr(dataset, "collect_schema"):
        return as_rows(dataset.collect())
    if hasattr(dataset, "to_batches") and hasattr(dataset, "schema"):
        return (row for batch in dataset.to_batches() for row in batch.to_pylist())
    if isinstance(dataset, Mapping):
        raise DatasetError(
            f"{describe_type(dataset)} with {', '.join(map(repr, dataset))} is not a single dataset: pass one of its parts"
        )
    if not isinstance(dataset, Iterable):
        raise DatasetError(
            f"{describe_type(dataset)} cannot be used as a dataset: pass a list of samples, or a function that returns one"
        )
    labels = _class_labels(dataset)
    if labels:
        return ({**row, **_label_names(row, labels)} for row in dataset)
    return (_inspect_row(row) if _is_inspect_sample(row) else row for row in dataset)


def _class_labels(dataset: Any) -> dict[str, Sequence[str]]:
    """Return column -> names of its classes, of a Hugging Face dataset."""
    features = getattr(dataset, "features", None)
    if not isinstance(features, Mapping):
        return {}
    return {name: feature.names for name, feature in features.items() if hasattr(feature, "int2str")}


def _label_names(row: Mapping[str, Any], labels: Mapping[str, Sequence[str]]) -> dict[str, str | None]:
    """Return the names of a row's classes. A split without labels, such as a test split, has -1."""
    return {
        column: names[row[column]] if row[column] is not None and row[column] >= 0 else None
        for column, names in labels.items()
        if column in row
    }


def _frame_rows(frame: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a data frame without its missing cells (NaN, NaT, NA, None)."""
    names = [str(name) for name in frame.columns]
    for values, missing in zip(
        frame.itertuples(index=False, name=None), frame.isna().itertuples(index=False, name=None), strict=True
    ):
        yield {name: _plain(value) for name, value, lacks in zip(names, values, missing, strict=True) if not lacks}


def _plain(value: Any) -> Any:
    """Return a Python number for a numpy scalar, which JSON cannot represent; other values unchanged."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape else value


def _is_inspect_sample(row: Any) -> bool:
    return not isinstance(row, Mapping | Sample) and all(hasattr(row, name) for name in ("input", "target", "metadata"))


def _inspect_row(row: Any) -> dict[str, Any]:
    """Return an Inspect sample as a row. An empty target becomes a missing expected value."""
    further = {"choices": list(row.choices)} if getattr(row, "choices", None) else {}
    fields = {"id": getattr(row, "id", None), "expected": row.target or None}
    return {**(row.metadata or {}), **further, **fields, "input": _input_of(row.input)}


def _input_of(value: Any) -> Any:
    """Return a text unchanged, and messages as roles and contents."""
    if isinstance(value, str):
        return value
    return [{"role": message.role, "content": message.text} for message in value]
