"""A seeded part of a dataset that stays the same when the dataset grows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from pytest_crucible.datasets.packed import kept
from pytest_crucible.datasets.strata import strata
from pytest_crucible.records import Sample


def subset(samples: Sequence[Sample], limit: int | None, *, seed: int, stratify: str | None = None) -> Sequence[Sample]:
    """`limit` samples drawn by a hash of seed and id, in the dataset's order.

    Drawing by hash makes subsets nested: the 100 samples of limit=100 are among the 200 of limit=200. With `stratify` each
    value of that field has its share of them, to one sample or so, by Webster's method, which keeps them nested. Raises
    DatasetError for a field that a sample lacks.
    """
    if limit is None or limit >= len(samples):
        return kept(samples)
    drawn = sorted((draw(f"{seed}:{sample.id}"), position) for position, sample in enumerate(samples))
    order = [position for _, position in drawn]
    if stratify is not None:
        order = _shared_out(order, strata(samples, stratify))
    return kept(samples[position] for position in sorted(order[:limit]))


def draw(what: str) -> bytes:
    """Bytes that are the same in every process, and in no order that means anything."""
    return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _shared_out(order: Sequence[int], labels: Sequence[str]) -> list[int]:
    """The drawn positions, so that each beginning of them has every stratum in proportion."""
    sizes, taken = Counter(labels), Counter[str]()
    ranked = []
    for place, position in enumerate(order):
        label = labels[position]
        ranked.append(((taken[label] + 0.5) / sizes[label], place, position))
        taken[label] += 1
    return [position for _, _, position in sorted(ranked)]
