"""A seeded part of a dataset that stays the same when the dataset grows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pytest_crucible.datasets.packed import kept
from pytest_crucible.records import Sample


def subset(samples: Sequence[Sample], limit: int | None, *, seed: int) -> Sequence[Sample]:
    """`limit` samples drawn by a hash of seed and id, in the dataset's order.

    Drawing by hash makes subsets nested: the 100 samples of limit=100 are among the 200 of limit=200.
    """
    if limit is None or limit >= len(samples):
        return kept(samples)
    drawn = sorted((_draw(sample.id, seed), position) for position, sample in enumerate(samples))
    return kept(samples[position] for position in sorted(position for _, position in drawn[:limit]))


def _draw(sample_id: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{sample_id}".encode(), digest_size=16).digest()
