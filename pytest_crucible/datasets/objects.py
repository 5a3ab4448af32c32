"""What other libraries call a dataset, as rows: told by what an object can do, so that none of them is imported.

Data frames of pandas and polars, datasets of Hugging Face, samples of Inspect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Sample

Rows = Iterable[Sample | Mapping[str, Any]]


def as_rows(given: Any) -> Rows:
    """The rows of an object, read as they are asked for. Raises DatasetError for what is not one dataset but several."""
    if hasattr(given, "iterrows") and hasattr(given, "isna"):
        return _of_frame(given)
    if hasattr(given, "iter_rows") and hasattr(given, "columns"):
        return cast(Rows, given.iter_rows(named=True))
    if isinstance(given, Mapping):
        raise DatasetError(
            f"a {type(given).__name__} with {', '.join(map(repr, given))} is not one dataset: give one of its parts"
        )
    if not isinstance(given, Iterable):
        raise DatasetError(
            f"a {type(given).__name__} is no dataset: give a list of samples, or a function that returns one"
        )
    return (_of_inspect(row) if _is_of_inspect(row) else row for row in given)


def _of_frame(frame: Any) -> Iterator[dict[str, Any]]:
    """A missing cell (NaN, NaT, NA, None) is no value."""
    names = [str(name) for name in frame.columns]
    for values, missing in zip(
        frame.itertuples(index=False, name=None), frame.isna().itertuples(index=False, name=None), strict=True
    ):
        yield {name: _plain(value) for name, value, lacks in zip(names, values, missing, strict=True) if not lacks}


def _plain(value: Any) -> Any:
    """Python's own number for one of numpy's, which JSON does not know."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape else value


def _is_of_inspect(row: Any) -> bool:
    return not isinstance(row, Mapping | Sample) and all(hasattr(row, name) for name in ("input", "target", "metadata"))


def _of_inspect(row: Any) -> dict[str, Any]:
    """An empty target is Inspect's way to say that there is none."""
    further = {"choices": list(row.choices)} if getattr(row, "choices", None) else {}
    known = {"id": getattr(row, "id", None), "expected": row.target or None}
    return {**(row.metadata or {}), **further, **known, "input": _input_of(row.input)}


def _input_of(given: Any) -> Any:
    """A text, or messages as roles and contents."""
    if isinstance(given, str):
        return given
    return [{"role": one.role, "content": one.text} for one in given]
