"""The rounds of a sweep: halves of the samples, looks that drop members, and the winner."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats import p_below_best
from pytest_crucible.stats.arrays import Labels
from pytest_crucible.stats.interval import NotEnoughData

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
    """Return the length, extended to the end of its last group."""
    while 0 < length < len(order):
        last, following = groups[order[length - 1]], groups[order[length]]
        if last is None or last != following:
            break
        length += 1
    return length


LOOKS = (1 / 8, 1 / 4, 1 / 2)
"""The shares of the choosing half after which a sweep looks."""
ALPHA = 0.025
"""The chance that the best member is dropped by drop = "proven" is at most this, over all looks together.

Half of 5 %: the other half is for members that are proven worse at the end, so that those that may be the best are one
confidence set (Hsu 1984).
"""

Values = npt.NDArray[np.float64]


def members_that_go_on(values: Values, clusters: Labels | None, *, drop: str, looks: int) -> list[int]:
    """Return the columns of samples x members values that go on; higher is better, NaN is a lost value.

    `looks` is the number of planned looks, which share alpha equally. Samples that some member lost are left out.
    """
    columns = list(range(values.shape[1]))
    complete = ~np.isnan(values).any(axis=1)
    if drop == "none" or len(columns) < 2 or not complete.any():
        return columns
    if drop == "half":
        return better_half(values[complete].mean(axis=0))
    of_complete = None if clusters is None else np.asarray(clusters)[complete]
    return _may_be_best(values[complete], of_complete, ALPHA / looks)


def better_half(means: Sequence[float] | Values) -> list[int]:
    """Return the columns with the higher means, in their order; the first of equal ones.

    >>> better_half([0.5, 0.9, 0.5])
    [0, 1]
    """
    best_first = sorted(range(len(means)), key=lambda column: -means[column])
    return sorted(best_first[: (len(best_first) + 1) // 2])


def best_member(means: Sequence[float] | Values) -> int:
    """Return the column with the highest mean; of equal ones the first, which is the first of the grid.

    >>> best_member([0.5, 0.9, 0.9])
    1
    """
    numbers = np.asarray(means, dtype=np.float64)
    # Equal means of other sums may differ by rounding.
    return int(np.argmax(numbers >= numbers.max() - 1e-12 * max(1.0, abs(numbers.max()))))


def _may_be_best(values: Values, clusters: Labels | None, alpha: float) -> list[int]:
    """Return the columns that may be the best (Gupta 1965): the best one is not among them in at most alpha of sweeps."""
    try:
        p_values = p_below_best(values, clusters=clusters)
    except NotEnoughData:
        return list(range(values.shape[1]))
    return [column for column, p_value in enumerate(p_values) if p_value > alpha]


def choose_winner(values: npt.NDArray[np.float64], *, is_conditional: bool = False) -> int | None:
    """Return the column of samples x members values with the best mean; higher is better, NaN is a lost value.

    Of equal means the first wins. Members are compared on the samples that all of them have; None without such samples. Means
    that are conditional are compared as they are, each of the member's own values.

    >>> choose_winner(np.array([[1.0, 0.0, 1.0], [np.nan, 1.0, 1.0]]))
    0
    """
    if is_conditional:
        there = ~np.isnan(values)
        return best_member(np.nanmean(values, axis=0)) if there.any(axis=0).all() else None
    complete = ~np.isnan(values).any(axis=1)
    return best_member(values[complete].mean(axis=0)) if complete.any() else None
