"""Which samples of a dataset are asked: a split of it, a fold of that, and so many of those."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.datasets.parts import fold, split
from pytest_crucible.datasets.subset import subset
from pytest_crucible.errors import DatasetError
from pytest_crucible.records import Sample, Selection


def select(samples: Sequence[Sample], chosen: Selection) -> Sequence[Sample]:
    """The samples, in the dataset's order. Raises DatasetError for a part that cannot be meant, or that has none."""
    if chosen.split is not None:
        samples = split(samples, chosen.split, stratify=chosen.stratify)
    if chosen.fold is not None:
        samples = fold(samples, chosen.fold, stratify=chosen.stratify)
    if not samples:
        raise DatasetError(f"no sample is left of {chosen.of} by {said(chosen)}: take larger parts")
    return subset(samples, chosen.limit, seed=chosen.seed, stratify=chosen.stratify)


def said(chosen: Selection) -> str:
    """As it stands in the marker.

    >>> said(Selection(of=100, seed=0, fold="2/5", limit=10))
    "fold='2/5', limit=10"
    """
    given = {name: getattr(chosen, name) for name in ("split", "fold", "limit", "stratify")}
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
