"""Compares the fields of two datasets: which have drifted, by how much, and within which margin."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_crucible.datasets.checks.columns import Column, MissingColumn, Table
from pytest_crucible.datasets.drift.kinds import FieldKind, kind_of
from pytest_crucible.datasets.drift.row import DriftRow
from pytest_crucible.datasets.drift.text_vectors import tfidf_vectors
from pytest_crucible.datasets.packed import iterate_fields, pack_if_many
from pytest_crucible.records import Sample
from pytest_crucible.records.slices import short_name
from pytest_crucible.stats import holm
from pytest_crucible.stats.data_drift import (
    FieldDrift,
    compare_categories,
    compare_numbers,
    compare_vectors,
    same_value,
    stability_of_categories,
    stability_of_numbers,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity

# A permuted test on 5,000 texts a side takes some seconds, and finds a shift of a few percent of the texts.
MOST_TEXTS = 5000
# New values that a row names.
MOST_NEW = 3
_NOT_COMPARED = ("id", "group")
Embed = Callable[[Sequence[str]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """The comparison of two datasets."""

    rows: tuple[DriftRow, ...]
    alpha: float
    margin: float | None
    seed: int
    left_out: tuple[int, int] = (0, 0)
    """Rows of both datasets that are left out, because one row of each group is compared."""
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()
    """Fields that only one of the datasets has: they are missing in all rows of the other."""

    @property
    def failed(self) -> tuple[DriftRow, ...]:
        return tuple(row for row in self.rows if row.fails(self.alpha))


def compare_datasets(
    old: Sequence[Sample],
    new: Sequence[Sample],
    *,
    fields: Sequence[str] = (),
    margin: float | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    kinds: Mapping[str, FieldKind] | None = None,
    embed: Embed = tfidf_vectors,
) -> DriftReport:
    """Return the comparison of all fields of two datasets, or of those named. Raises MissingColumn for an unknown one.

    Values are compared with values, and shares of missing values with each other.

    `embed` returns a vector of length 1 for each text, shape (n, d).
    """
    sides = one_of_each_group(old, seed), one_of_each_group(new, seed)
    tables = Table(sides[0], fields), Table(sides[1], fields)
    names = [_fields(table) for table in tables]
    # A field that only one of the datasets has is missing in all rows of the other.
    compared = list(fields) or list(dict.fromkeys([*names[0], *names[1]]))
    rows = [
        _compare(
            *(_column(table, name, optional=not fields) for table in tables),
            seed=seed,
            kind=(kinds or {}).get(name),
            embed=embed,
        )
        for name in compared
    ]
    adjusted = holm([row.p_value(margin) for row in rows], family_size=max(len(rows), 1))
    decided = [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]
    return DriftReport(
        rows=tuple(row.decide(margin, alpha, len(rows)) for row in decided),
        alpha=alpha,
        margin=margin,
        seed=seed,
        left_out=(len(old) - len(sides[0]), len(new) - len(sides[1])),
        only_old=tuple(name for name in names[0] if name not in names[1]) if not fields else (),
        only_new=tuple(name for name in names[1] if name not in names[0]) if not fields else (),
    )


def one_of_each_group(samples: Sequence[Sample], seed: int) -> Sequence[Sample]:
    """Return one sample of each group, drawn by a hash of its content; all samples if there are no groups.

    Samples that share a passage or a template are alike, and tests of independent rows would find drift between any two sets
    of groups.
    """
    if all(group is None for _, _, _, group, _ in iterate_fields(samples)):
        return samples
    drawn: dict[str | None, tuple[bytes, int]] = {}
    for position, (name, text, expected, group, metadata) in enumerate(iterate_fields(samples)):
        content = json.dumps([text, expected, metadata], sort_keys=True, default=repr)
        key = (hashlib.sha256(f"{seed}:{content}".encode()).digest(), position)
        drawn[group if group is not None else name] = min(drawn.get(group if group is not None else name, key), key)
    return pack_if_many(samples[position] for position in sorted(position for _, position in drawn.values()))


def _fields(table: Table) -> list[str]:
    """Return the fields to compare; of a mapping, its keys."""
    names: list[str] = []
    for name in table.fields:
        if name in _NOT_COMPARED or not table.has(name):
            continue
        values = table.column(name).present_values
        keys = sorted({str(key) for value in values[:1000] if isinstance(value, Mapping) for key in value})
        names += [f"{name}.{key}" for key in keys if table.has(f"{name}.{key}")] or [name]
    return names


def _column(table: Table, name: str, *, optional: bool) -> Column:
    if optional and not table.has(name):
        return Column(name, [None] * len(table))
    return table.column(name)


def _compare(old: Column, new: Column, *, seed: int, kind: FieldKind | None, embed: Embed) -> DriftRow:
    kind = kind or kind_of((old, new))
    # Each field has draws of its own, so that adding a field does not change the others.
    seed = int.from_bytes(hashlib.sha256(f"{seed}:{old.name}".encode()).digest()[:4])
    row = DriftRow(
        field=old.name,
        kind=kind,
        drift=None,
        missing_drift=_compare_missing(old, new, seed),
        missing=(old.missing, new.missing),
    )
    try:
        return _KINDS[kind](row, old, new, seed, embed)
    except NotEnoughData as error:
        return replace(row, note=str(error))


def _compare_missing(old: Column, new: Column, seed: int) -> FieldDrift | None:
    """Return the comparison of the shares of missing values; None where none is missing, or all are."""
    if not (old.missing or new.missing) or not (len(old.present) or len(new.present)):
        return None
    return compare_categories(*([len(column.present), column.missing] for column in (old, new)), seed=seed)


def _compare_numbers(row: DriftRow, old: Column, new: Column, seed: int, _: Embed) -> DriftRow:
    numbers = [column.numbers[~np.isnan(column.numbers)] for column in (old, new)]
    return replace(row, drift=compare_numbers(*numbers, seed=seed), stability=stability_of_numbers(*numbers, seed=seed))


def _compare_categories(row: DriftRow, old: Column, new: Column, seed: int, _: Embed) -> DriftRow:
    counters = [Counter(column.labels) for column in (old, new)]
    # Sorted, so that the order of rows does not change a permuted p-value.
    labels = sorted(set().union(*counters))
    counts = [[counter[label] for label in labels] for counter in counters]
    row = replace(row, stability=stability_of_categories(*counts, seed=seed), note=_new_values(*counters))
    if len(labels) == 1 and all(counters):
        return replace(row, drift=same_value(*(counter.total() for counter in counters)))
    return replace(row, drift=compare_categories(*counts, seed=seed))


def _new_values(old: Counter[str], new: Counter[str]) -> str:
    """Return the sentence on values that only the new dataset has, the most frequent first; empty without any."""
    values = sorted(((-count, label) for label, count in new.items() if label not in old)) if old else []
    if not values:
        return ""
    listed = ", ".join(f"{short_name(label)} ({-count:,})" for count, label in values[:MOST_NEW])
    more = f" and {len(values) - MOST_NEW:,} more" if len(values) > MOST_NEW else ""
    return f"{quantity(len(values), 'new value')}: {listed}{more}"


def _compare_texts(row: DriftRow, old: Column, new: Column, seed: int, embed: Embed) -> DriftRow:
    texts = [_draw_texts(column.texts, seed) for column in (old, new)]
    note = f"{MOST_TEXTS:,} texts a side, drawn" if max(len(old.texts), len(new.texts)) > MOST_TEXTS else ""
    vectors = embed([*texts[0], *texts[1]])
    return replace(row, drift=compare_vectors(vectors, len(texts[0]), seed=seed), note=note)


_KINDS: Mapping[FieldKind, Callable[..., DriftRow]] = {
    "numbers": _compare_numbers,
    "categories": _compare_categories,
    "texts": _compare_texts,
}


def _draw_texts(texts: Sequence[str], seed: int) -> list[str]:
    """Return the texts in an order that does not depend on that of the rows; of many, those drawn by hash."""
    if len(texts) <= MOST_TEXTS:
        return sorted(texts)
    return sorted(texts, key=lambda text: (hashlib.sha256(f"{seed}:{text}".encode()).digest(), text))[:MOST_TEXTS]


__all__ = ["DriftReport", "DriftRow", "MissingColumn", "compare_datasets"]
