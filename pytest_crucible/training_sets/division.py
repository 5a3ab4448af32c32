"""Divides rows into a training file and a holdout, by group, and mixes old rows into new ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from pytest_crucible.records import TrainingRow

Item = TypeVar("Item")


def held_out_groups(rows: Sequence[TrainingRow], share: float, seed: int) -> frozenset[str]:
    """Return the groups of the holdout: their share is rounded, and neither file is left without a group.

    The draw depends on the groups' names alone, so that a group stays in its file when other rows change.
    """
    groups = list(dict.fromkeys(row.group for row in rows))
    count = round(share * len(groups))
    if share > 0 and len(groups) > 1:
        count = min(max(count, 1), len(groups) - 1)
    return frozenset(sorted(groups, key=lambda group: draw_key(seed, group))[:count])


def count_replayed(rows: int, share: float, available: int) -> int:
    """Return the number of old rows that makes the share of a file with `rows` new ones.

    >>> count_replayed(80, 0.2, available=1000), count_replayed(80, 0.2, available=5)
    (20, 5)
    """
    return min(round(rows * share / (1 - share)), available)


def draw_replayed(texts: Sequence[str], count: int, seed: int) -> list[int]:
    """Return the positions of the drawn rows, in their order in the file."""
    order = sorted(range(len(texts)), key=lambda position: (draw_key(seed, texts[position]), position))
    return sorted(order[:count])


def spread(new: Sequence[Item], old: Sequence[Item]) -> list[Item]:
    """Return the new rows with the old ones among them, at equal distances.

    >>> spread([1, 2, 3, 4], [-1, -2])
    [1, -1, 2, 3, -2, 4]
    """
    places = [((number + 0.5) / len(new), 0, row) for number, row in enumerate(new)]
    places += [((number + 0.5) / len(old), 1, row) for number, row in enumerate(old)]
    return [row for _, _, row in sorted(places, key=lambda place: place[:2])]


def draw_key(seed: int, text: str) -> str:
    """Return a text that orders rows by chance, equally on every machine."""
    return hashlib.sha256(f"{seed}:{text}".encode("utf-8", "surrogatepass")).hexdigest()
