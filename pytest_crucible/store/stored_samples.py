"""Reads the samples of a dataset back: columns of all of them, and the samples themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Column, Row, select

from pytest_crucible.records import Sample
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store import schema
from pytest_crucible.store.engine import explain_errors
from pytest_crucible.store.runs import RunStore

_PART = 500
"""Rows read at a time: few enough to be released before the garbage collector counts 700 objects and visits them all."""


def group_names(store: RunStore, dataset: str) -> list[str | None]:
    """Return each sample's group, in the dataset's order."""
    return _read_column(store, dataset, schema.samples.c.sample_group)


def expected_values(store: RunStore, dataset: str) -> list[Any]:
    """Return each sample's `expected`, in the dataset's order."""
    return _read_column(store, dataset, schema.samples.c.expected)


def metadata_values(store: RunStore, dataset: str) -> list[Mapping[str, Any]]:
    """Return each sample's metadata, in the dataset's order; empty if it has none."""
    return [metadata or {} for metadata in _read_column(store, dataset, schema.samples.c.metadata)]


def has_metadata(store: RunStore, dataset: str) -> bool:
    """Return whether some sample of the dataset was stored with metadata."""
    return any(metadata_values(store, dataset))


def all_samples(store: RunStore, dataset: str) -> list[Sample]:
    """Return all samples of a dataset, in its order."""
    table = schema.samples
    query = select(table).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        return [_sample(row) for row in connection.execute(query)]


def samples(store: RunStore, dataset: str, positions: Sequence[int]) -> dict[int, Sample]:
    """Return a few samples of a dataset, by position."""
    table = schema.samples
    query = select(table).where(table.c.dataset == dataset, table.c.position.in_(positions))
    with explain_errors(store.location), store.engine.connect() as connection:
        return {row.position: _sample(row) for row in connection.execute(query)}


def sample_contents(store: RunStore, dataset: str) -> list[tuple[str, str]]:
    """Return each sample's id, and its input and expected value as one text, in the dataset's order."""
    table = schema.samples
    query = select(table.c.sample_id, table.c.input, table.c.expected).where(table.c.dataset == dataset)
    with explain_errors(store.location), store.engine.connect() as connection:
        rows = connection.execute(query.order_by(table.c.position)).all()
    return [(name, canonical([text, expected])) for name, text, expected in rows]


def all_sample_ids(store: RunStore, dataset: str) -> list[str]:
    """Return each sample's id, in the dataset's order."""
    return _read_column(store, dataset, schema.samples.c.sample_id)


def _read_column(store: RunStore, dataset: str, column: Column[Any]) -> list[Any]:
    """Return a column of a dataset's samples, in the dataset's order."""
    table = schema.samples
    query = select(column).where(table.c.dataset == dataset).order_by(table.c.position)
    with explain_errors(store.location), store.engine.connect() as connection:
        parts = connection.execute(query).partitions(_PART)
        return [value for part in parts for (value,) in part]


def _sample(row: Row[Any]) -> Sample:
    return Sample(
        id=row.sample_id,
        input=row.input,
        expected=row.expected,
        group=row.sample_group,
        metadata=row.metadata or {},
    )
