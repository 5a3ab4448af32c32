"""The halves of the samples in a sweep: the choosing half ranks the members, the confirming half gives the verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_crucible.records.errors import SpecError

FEWEST_SAMPLES = 20
"""In each half: fewer choose and prove hardly anything."""
FEWEST_GROUPS = 5
"""In each half: intervals over fewer groups are not computed."""


@dataclass(frozen=True, slots=True)
class Halves:
    """Positions of the samples of each half, in the dataset's order."""

    choosing: tuple[int, ...]
    confirming: tuple[int, ...]


def split_halves(order: Sequence[int], groups: Sequence[str | None], confirm: float) -> Halves:
    """Return the halves: the samples that come first in look order choose. Groups stay whole.

    With `confirm` 0 all samples are in both. `order` depends on the ids alone, so that every sweep of the same samples has
    the same halves. Raises SpecError for a half with too few samples or groups.

    >>> split_halves(range(80), [None] * 80, 0.25).confirming[0]
    60
    """
    if confirm == 0:
        return Halves(tuple(sorted(order)), tuple(sorted(order)))
    end = _whole_groups(order, groups, round(len(order) * (1 - confirm)))
    first, second = order[:end], order[end:]
    is_grouped = None not in {groups[position] for position in order} and len(set(groups)) < len(order)
    too_few_groups = is_grouped and min(len({groups[k] for k in half}) for half in (first, second)) < FEWEST_GROUPS
    if min(len(first), len(second)) < FEWEST_SAMPLES or too_few_groups:
        raise SpecError(
            f"{len(order)} samples are too few for confirm = {confirm:g}, which needs {FEWEST_SAMPLES} (and {FEWEST_GROUPS} "
            f"groups) in each half: {_advice(len(order), confirm, is_grouped=is_grouped)}"
        )
    return Halves(tuple(sorted(first)), tuple(sorted(second)))


def _advice(samples: int, confirm: float, *, is_grouped: bool) -> str:
    """Return what to do about a half that is too small: another share, where one would do.

    >>> _advice(400, 0.99, is_grouped=False), _advice(12, 0.5, is_grouped=False)
    ('set confirm = 0.95, or add samples', 'add samples or set confirm = 0')
    """
    if is_grouped or samples < 2 * FEWEST_SAMPLES:
        return "add samples or set confirm = 0"
    fewest = FEWEST_SAMPLES / samples
    share = math.floor(100 * (1 - fewest)) if confirm > 0.5 else math.ceil(100 * fewest)
    return f"set confirm = {share / 100:g}, or add samples"


def look_lengths(order: Sequence[int], groups: Sequence[str | None], shares: Sequence[float]) -> tuple[int, ...]:
    """Return after how many samples of the order to look, in whole groups.

    >>> look_lengths(range(16), [None] * 16, (1 / 8, 1 / 4, 1 / 2))
    (2, 4, 8)
    """
    lengths = [_whole_groups(order, groups, round(len(order) * share)) for share in shares]
    return tuple(sorted({length for length in lengths if 1 < length < len(order)}))


def _whole_groups(order: Sequence[int], groups: Sequence[str | None], length: int) -> int:
    """Return the length up to the end of the group in which it lies."""
    while 0 < length < len(order):
        last, following = groups[order[length - 1]], groups[order[length]]
        if last is None or last != following:
            break
        length += 1
    return length
