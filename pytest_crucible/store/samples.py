"""Reads samples and their twins back, as columns or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_crucible.records import (
    Sample,
)
from pytest_crucible.records.serialize import canonical
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore


def group_names(store: RunStore, dataset: str) -> list[str | None]:
    """Return each sample's group, in the dataset's order."""
    return list(_read_column(store, dataset, "sample_group"))


def expected_values(store: RunStore, dataset: str) -> list[Any]:
    """Return each sample's `expected`, in the dataset's order."""
    return list(map(from_json, _read_column(store, dataset, "expected")))


def metadata_values(store: RunStore, dataset: str) -> list[Mapping[str, Any]]:
    """Return each sample's metadata, in the dataset's order; empty if it has none."""
    return [from_json(metadata) or {} for metadata in _read_column(store, dataset, "metadata")]


def has_metadata(store: RunStore, dataset: str) -> bool:
    """Return whether some sample of the dataset was stored with metadata."""
    return any(metadata_values(store, dataset))


_SAMPLES = "SELECT position, sample_id, sample_group, input, expected, metadata FROM samples WHERE dataset = :dataset"


def all_samples(store: RunStore, dataset: str) -> list[Sample]:
    """Return all samples of a dataset, in its order."""
    return [_sample(*columns) for _, *columns in store.rows(f"{_SAMPLES} ORDER BY position", dataset=dataset)]


def samples(store: RunStore, dataset: str, positions: Sequence[int]) -> dict[int, Sample]:
    """Return a few samples of a dataset, by position."""
    rows = store.rows(f"{_SAMPLES} AND position IN (:positions)", dataset=dataset, positions=list(positions))
    return {position: _sample(*columns) for position, *columns in rows}


def sample_contents(store: RunStore, dataset: str) -> list[tuple[str, str]]:
    """Return each sample's id, and its input and expected value as one text, in the dataset's order."""
    query = "SELECT sample_id, input, expected FROM samples WHERE dataset = :dataset ORDER BY position"
    rows = store.rows(query, dataset=dataset)
    return [(name, canonical([from_json(text), from_json(expected)])) for name, text, expected in rows]


def all_sample_ids(store: RunStore, dataset: str) -> list[str]:
    """Return each sample's id, in the dataset's order."""
    return list(_read_column(store, dataset, "sample_id"))


def _read_column(store: RunStore, dataset: str, column: str) -> Iterator[Any]:
    """Yield a column of a dataset's samples, in the dataset's order."""
    return store.scalars(f"SELECT {column} FROM samples WHERE dataset = :dataset ORDER BY position", dataset=dataset)


def _sample(id: str, group: str | None, input: str | None, expected: str | None, metadata: str | None) -> Sample:
    return Sample(
        id=id,
        input=from_json(input),
        expected=from_json(expected),
        group=group,
        metadata=from_json(metadata) or {},
    )


def samples_without_twin(store: RunStore, sha256: str) -> Mapping[int, str]:
    """Return the positions of the samples that a variant does not apply to, each with the reason."""
    query = "SELECT position, reason FROM twins WHERE variant = :sha256 AND reason IS NOT NULL"
    return dict(store.rows(query, sha256=sha256))


def load_twins(store: RunStore, sha256: str, position: int | None = None) -> Mapping[int, Mapping[str, Any]]:
    """Return input, expected, reason and facts of a variant's twins by position: of all samples, or of one."""
    of_one = "" if position is None else "AND position = :position"
    query = f"SELECT position, input, expected, reason, facts FROM twins WHERE variant = :sha256 {of_one}"
    return {
        at: {"input": from_json(input), "expected": from_json(expected), "reason": reason, "facts": from_json(facts)}
        for at, input, expected, reason, facts in store.rows(query, sha256=sha256, position=position)
    }


def load_sample(store: RunStore, dataset: str, position: int) -> Mapping[str, Any]:
    """Return a stored sample: sample_id, sample_group, input, expected and metadata."""
    query = "SELECT * FROM samples WHERE dataset = :dataset AND position = :position"
    with store.connect() as connection:
        (row,) = connection.named_rows(query, dataset=dataset, position=position)
    return row | {name: from_json(row[name]) for name in ("input", "expected", "metadata")}


def find_position(store: RunStore, dataset: str, sample: str) -> int | None:
    """Return the position of the sample with this id; None if the dataset has none."""
    query = "SELECT position FROM samples WHERE dataset = :dataset AND sample_id = :sample"
    position: int | None = store.scalar(query, dataset=dataset, sample=sample)
    return position
