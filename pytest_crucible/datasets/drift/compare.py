"""Compares the fields of two datasets: which have drifted, by how much, and within which margin."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pytest_crucible.datasets.checks.columns import Column, MissingColumn, Table
from pytest_crucible.datasets.drift.text_vectors import tfidf_vectors
from pytest_crucible.datasets.packed import iterate_fields, pack_if_many
from pytest_crucible.records import Sample
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.types import State
from pytest_crucible.stats import holm
from pytest_crucible.stats.data_drift import (
    FieldDrift,
    compare_categories,
    compare_numbers,
    compare_vectors,
    decide_margin,
    stability_of_categories,
    stability_of_numbers,
)

FieldKind = Literal["numbers", "categories", "texts"]
# Texts are categories if they have at most 50 different values, or one for each five rows.
MOST_CATEGORIES, LEAST_REPEATS = 50, 5
# A permuted test on 5,000 texts a side takes some seconds, and finds a shift of a few percent of the texts.
MOST_TEXTS = 5000
_NOT_COMPARED = ("id", "group")
Embed = Callable[[Sequence[str]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftRow:
    """One field of two datasets."""

    field: str
    kind: FieldKind | None
    drift: FieldDrift | None
    """None if the values allow no test."""
    p_adjusted: float | None = None
    """Adjusted over all fields (Holm)."""
    missing: tuple[int, int] = (0, 0)
    stability: tuple[float, float] | None = None
    """The population stability index, and its mean without drift; None for texts."""
    state: State | None = None
    """Of a margin; None without one."""
    note: str = ""

    def is_proven(self, alpha: float) -> bool:
        """Return whether any drift, even a small one, is proven."""
        return self.p_adjusted is not None and self.p_adjusted <= alpha

    def fails(self, alpha: float) -> bool:
        """Return whether the field has drifted: beyond the margin if there is one."""
        return self.state == "missed" if self.state is not None else self.is_proven(alpha)


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
    """Fields that only one of the datasets has."""

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
    """Return the comparison of all fields that both datasets have, or of those named. Raises MissingColumn for an unknown one.

    `embed` returns a vector of length 1 for each text, shape (n, d).
    """
    sides = one_of_each_group(old, seed), one_of_each_group(new, seed)
    tables = Table(sides[0], fields), Table(sides[1], fields)
    names = [_fields(table) for table in tables]
    compared = list(fields) or [name for name in names[0] if name in names[1]]
    rows = [
        _compare(*(table.column(name) for table in tables), seed=seed, kind=(kinds or {}).get(name), embed=embed)
        for name in compared
    ]
    adjusted = holm([None if row.drift is None else row.drift.p_value for row in rows], family_size=max(len(rows), 1))
    decided = [replace(row, p_adjusted=p) for row, p in zip(rows, adjusted, strict=True)]
    return DriftReport(
        rows=tuple(decide_row(row, margin, alpha, len(rows)) for row in decided),
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


def kind_of(columns: Sequence[Column]) -> FieldKind:
    """Return whether values are compared as numbers, categories or texts."""
    types = frozenset().union(*(column.types for column in columns)) - {type(None)}
    if types <= {int, float}:
        return "numbers"
    if types <= {bool}:
        return "categories"
    labels = [label for column in columns for label in column.labels]
    different = len(set(labels))
    return "categories" if different <= MOST_CATEGORIES or different * LEAST_REPEATS <= len(labels) else "texts"


def _compare(old: Column, new: Column, *, seed: int, kind: FieldKind | None, embed: Embed) -> DriftRow:
    kind = kind or kind_of((old, new))
    row = DriftRow(field=old.name, kind=kind, drift=None, missing=(old.missing, new.missing))
    # Each field has draws of its own, so that adding a field does not change the others.
    seed = int.from_bytes(hashlib.sha256(f"{seed}:{old.name}".encode()).digest()[:4])
    try:
        if kind == "numbers":
            numbers = [column.numbers[~np.isnan(column.numbers)] for column in (old, new)]
            return replace(
                row,
                drift=compare_numbers(*numbers),
                stability=stability_of_numbers(*numbers, seed=seed),
            )
        if kind == "categories":
            counters = [Counter(column.labels) for column in (old, new)]
            # Sorted, so that the order of rows does not change a permuted p-value.
            labels = sorted(set().union(*counters))
            counts = [[counter[label] for label in labels] for counter in counters]
            return replace(
                row,
                drift=compare_categories(*counts, seed=seed),
                stability=stability_of_categories(*counts, seed=seed),
            )
        texts = [_draw_texts(column.texts, seed) for column in (old, new)]
        note = f"{MOST_TEXTS:,} texts a side, drawn" if max(len(old.texts), len(new.texts)) > MOST_TEXTS else ""
        vectors = embed([*texts[0], *texts[1]])
        return replace(row, drift=compare_vectors(vectors, len(texts[0]), seed=seed), note=note)
    except NotEnoughData as error:
        return replace(row, note=str(error))


def _draw_texts(texts: Sequence[str], seed: int) -> list[str]:
    """Return the texts in an order that does not depend on that of the rows; of many, those drawn by hash."""
    if len(texts) <= MOST_TEXTS:
        return sorted(texts)
    return sorted(texts, key=lambda text: (hashlib.sha256(f"{seed}:{text}".encode()).digest(), text))[:MOST_TEXTS]


def decide_row(row: DriftRow, margin: float | None, alpha: float, family_size: int) -> DriftRow:
    """Return the row with its state against the margin, corrected for the number of fields; unchanged without a margin."""
    # Texts have no distance: proven drift fails, as without a margin.
    if margin is None or row.drift is None or row.drift.distance is None:
        return row
    return replace(row, state=decide_margin(row.drift, margin, alpha=alpha, family_size=family_size))


__all__ = ["DriftReport", "DriftRow", "MissingColumn", "compare_datasets", "kind_of"]
