"""A seeded part of a dataset that stays the same when the dataset grows."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.datasets.strata import strata
from pytest_crucible.records import Sample


def subset(samples: Sequence[Sample], limit: int | None, *, seed: int, stratify: str | None = None) -> Sequence[Sample]:
    """Return `limit` samples drawn by a hash of seed and id, in the dataset's order.

    Drawing by hash makes subsets nested: the 100 samples of limit=100 are among the 200 of limit=200. With `stratify` each
    value of that field is represented in proportion, within about one sample, by Webster's method, which keeps subsets nested.
    Raises DatasetError if a sample lacks the field.
    """
    if limit is None or limit >= len(samples):
        return pack_if_many(samples)
    drawn = sorted((draw(f"{seed}:{sample.id}"), position) for position, sample in enumerate(samples))
    order = [position for _, position in drawn]
    if stratify is not None:
        order = _interleave_strata(order, strata(samples, stratify))
    return pack_if_many(samples[position] for position in sorted(order[:limit]))


def draw(what: str) -> bytes:
    """Return a hash that is the same in every process, used as a reproducible random draw."""
    # Not hash(), which differs from process to process. Labels may hold lone surrogates, which UTF-8 alone refuses.
    return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _interleave_strata(order: Sequence[int], labels: Sequence[str]) -> list[int]:
    """Return the drawn positions reordered so that each prefix contains every stratum in proportion."""
    sizes, counts = Counter(labels), Counter[str]()
    ranked = []
    for place, position in enumerate(order):
        label = labels[position]
        # The middle of the k-th seat is Webster's divisor; the start of the seat would favour small strata.
        ranked.append(((counts[label] + 0.5) / sizes[label], place, position))
        counts[label] += 1
    return [position for _, _, position in sorted(ranked)]
