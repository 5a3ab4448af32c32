"""The slices of samples by their fields: one pass over the dataset, in parts, so that a large one is never in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import Any

import numpy as np

from pytest_crucible.analyse.slices import MOST_GROUPS, is_by_twin
from pytest_crucible.features.view.samples.index import Codes, Labels
from pytest_crucible.measures.fields import field_names, label_order, slice_samples
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Plan
from pytest_crucible.records.datasets import By, Field
from pytest_crucible.store.database import from_json
from pytest_crucible.store.runs import RunStore

_PART = 5_000
"""Samples whose metadata are in memory together."""
Part = tuple[Sequence[Any], Sequence[Mapping[str, Any]]]
"""`expected` and metadata of some samples."""


def load_slices(store: RunStore, plan: Plan) -> Mapping[str, Labels]:
    """Return the slices of each field by its title: those by which the plan slices, then all fields with few values."""
    planned = [measure.by for measure in (*plan.targets, *plan.contrasts)]
    slicers = {by.title: _Slicer(by) for by in planned if by is not None and not is_by_twin(by, plan.variants)}
    start = 0
    for expected, metadata in _read_parts(store, plan.dataset_sha256):
        for name in field_names(expected, metadata):
            slicers.setdefault(name, _Slicer(By((Field(name),)), start))
        for slicer in slicers.values():
            slicer.add(expected, metadata)
        start += len(expected)
    return {title: slicer.labels() for title, slicer in slicers.items() if 1 < len(slicer.codes) <= MOST_GROUPS}


def _read_parts(store: RunStore, dataset: str) -> Iterator[Part]:
    query = "SELECT expected, metadata FROM samples WHERE dataset = :dataset ORDER BY position"
    rows = store.rows(query, dataset=dataset)
    while part := list(islice(rows, _PART)):
        yield [from_json(expected) for expected, _ in part], [from_json(metadata) or {} for _, metadata in part]


@dataclass(slots=True)
class _Slicer:
    """The slices of one field so far."""

    by: By
    start: int = 0
    """How many samples came before the first that has the field."""
    codes: dict[str, int] = field(default_factory=dict)
    """A number for each name."""
    parts: list[Codes] = field(default_factory=list)

    def add(self, expected: Sequence[Any], metadata: Sequence[Mapping[str, Any]]) -> None:
        """Add the slices of some samples, unless there are too many already: then the field is an id, or a text."""
        if len(self.codes) > MOST_GROUPS:
            return
        slicing = slice_samples(self.by, expected, metadata)
        of_names = [self.codes.setdefault(name, len(self.codes)) for name in slicing.names]
        # The last place is that of -1, a sample without the field.
        self.parts.append(np.array([*of_names, -1], dtype=np.int32)[slicing.codes])

    def labels(self) -> Labels:
        """Return the slices of all samples, named in the order of their numbers or letters."""
        names = [name for name in _cut_names(self.by) if name in self.codes] or sorted(self.codes, key=label_order)
        places = np.full(len(names) + 1, -1, dtype=np.int16)
        places[[self.codes[name] for name in names]] = np.arange(len(names))
        absent: Codes = np.full(self.start, -1, dtype=np.int16)
        return Labels(np.concatenate([absent, *(places[part] for part in self.parts)]), tuple(names))


def _cut_names(by: By) -> Sequence[str]:
    """Return the names of the ranges of a field that is cut, the lowest first; empty for other fields."""
    if len(by.fields) > 1 or not by.fields[0].cuts:
        return ()
    name, cuts = by.fields[0].name, by.fields[0].cuts
    return slice_samples(by, [None] * (1 + len(cuts)), [{name: value} for value in (cuts[0] - 1, *cuts)]).names
