"""Select samples of a dataset: a split, a fold of that split, and a limited number of its samples."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.datasets.parts import fold, split
from pytest_crucible.datasets.subset import subset
from pytest_crucible.records import Sample, Selection
from pytest_crucible.records.errors import DatasetError


def select(samples: Sequence[Sample], chosen: Selection) -> Sequence[Sample]:
    """Return the selected samples, in the dataset's order. Raises DatasetError for an invalid or empty part."""
    if chosen.split is not None:
        samples = split(samples, chosen.split, stratify=chosen.stratify)
    if chosen.fold is not None:
        samples = fold(samples, chosen.fold, stratify=chosen.stratify)
    if not samples:
        raise DatasetError(f"{selection_text(chosen)} selects none of {chosen.of} samples: select larger parts")
    return subset(samples, chosen.limit, seed=chosen.seed, stratify=chosen.stratify)


def selection_text(chosen: Selection) -> str:
    """Return the selection as the marker's arguments.

    >>> selection_text(Selection(of=100, seed=0, fold="2/5", limit=10))
    "fold='2/5', limit=10"
    """
    parts = {name: getattr(chosen, name) for name in ("split", "fold", "limit", "stratify")}
    return ", ".join(f"{name}={value!r}" for name, value in parts.items() if value is not None)
