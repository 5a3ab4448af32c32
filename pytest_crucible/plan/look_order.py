"""The order in which a run with looks sends its samples: by a hash of their ids, so that it depends on no score."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence


def look_order(ids: Sequence[str], groups: Sequence[str | None]) -> list[int]:
    """Return the positions of the samples in the order in which they are sent; the samples of a group are neighbours.

    It is the same in every run and on every machine, so that stored replies are those of the samples that come first.

    >>> look_order(["a", "b", "c"], [None, None, None])
    [2, 1, 0]
    """
    # A group is one value of a look, so it has to be complete before the next one begins.
    keys = [(_digest(name if group is None else group), _digest(name)) for name, group in zip(ids, groups, strict=True)]
    return sorted(range(len(keys)), key=keys.__getitem__)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def complete_length(
    order: Sequence[int], groups: Sequence[str | None], is_complete: Callable[[int], bool], start: int = 0
) -> int:
    """Return how many samples from the beginning of the order are complete, in whole groups. Those before `start` are.

    >>> complete_length([2, 0, 1], ["b", "b", "a"], {2, 0}.__contains__)
    1
    """
    end = start
    while end < len(order) and is_complete(order[end]):
        end += 1
    if end < len(order):
        # The group that the next sample belongs to has begun, but is not complete.
        while end > start and _same_group(groups, order[end - 1], order[end]):
            end -= 1
    return end


def _same_group(groups: Sequence[str | None], one: int, other: int) -> bool:
    return groups[one] is not None and groups[one] == groups[other]
