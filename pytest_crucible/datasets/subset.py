"""A seeded part of a dataset that stays the same when the dataset grows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pytest_crucible.records import Sample


def subset(samples: Sequence[Sample], limit: int | None, *, seed: int) -> list[Sample]:
    """`limit` samples drawn by a hash of seed and id, in the dataset's order.

    Drawing by hash makes subsets nested: the 100 samples of limit=100 are among the 200 of limit=200.
    """
    if limit is None or limit >= len(samples):
        return list(samples)
    chosen = {sample.id for sample in sorted(samples, key=lambda sample: _draw(sample.id, seed))[:limit]}
    return [sample for sample in samples if sample.id in chosen]


def _draw(sample_id: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{sample_id}".encode(), digest_size=16).digest()
