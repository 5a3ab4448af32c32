"""The largest gap, the smallest ratio and the worst mean of k slices: estimates of extremes, with bounds that hold for them.

The observed gap is biased upwards: with ten slices of 50 samples that are all right in 80 %, it is .17 on average. So the bound
that proves a limit missed holds for all pairs at once: the skewness-corrected score bound at Tukey's critical value
q(alpha; k, inf) / sqrt(2) for yes or no, and Gaffke's bound at alpha / (k (k - 1)) for scores and clusters. The bound that proves
it met is the one-sided bound of every pair: all of them must clear the limit, which needs no correction (Berger 1982,
Technometrics 24:295). Bounds may lie beyond 0, or beyond a ratio of 1: then no pair of slices is proven to differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.slices.pairs import Extreme, bound_pairs
from pytest_crucible.stats.slices.slicing import SliceMeans

SCORE = "score, simultaneous over pairs"
GAFFKE = "gaffke, simultaneous over pairs"
MATCHED = "tango, simultaneous over pairs"
_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Pair:
    """A column and two slices of it, by number: the higher one first for a gap, the lower one for a ratio."""

    column: int
    first: int
    second: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtremeBounds:
    """A gap or a ratio with its one-sided bounds, and the pair of slices that each of the three is of."""

    value: float | None
    lower: float | None
    """None where a slice without a rate, or without a known error, could be anything."""
    upper: float | None
    pair: Pair | None = None
    lower_pair: Pair | None = None
    upper_pair: Pair | None = None
    method: str = "none"
    needed: float | None = None
    """How many times as many samples would decide at this estimate, with 80 % power; None where nothing would."""


def bound_extreme(
    kind: Extreme,
    plus: Sequence[SliceMeans],
    minus: Sequence[SliceMeans],
    *,
    alpha: float,
    limit: float | None = None,
) -> ExtremeBounds:
    """Return the extreme over all pairs of slices, and over all columns, with bounds at alpha each.

    Each pair is plus[first] against minus[second]: the same means, or those with the lost samples at opposite ends. The errors of
    several columns share alpha. With `limit` the result has the factor by which
    the number of samples must grow to decide.
    """
    tables = [
        _table(kind, number, *column, alpha / len(plus), alpha)
        for number, column in enumerate(zip(plus, minus, strict=True))
    ]
    values, lower, upper = np.concatenate([columns for _, columns in tables], axis=1)
    if not (np.isfinite(values) | np.isposinf(values)).any():
        return ExtremeBounds(value=None, lower=None, upper=None)
    pairs = list(itertools.chain.from_iterable(pairs for pairs, _ in tables))
    return _of_pairs(
        kind, pairs, values, lower, upper, _method(kind, plus), _needed_samples(kind, values, lower, upper, limit)
    )


def _of_pairs(
    kind: Extreme, pairs: list[Pair], values: Array, lower: Array, upper: Array, method: str, needed: float | None
) -> ExtremeBounds:
    # The bound that proves a limit met must hold for every pair; the other one may leave out a pair that has none.
    if kind == "gap":
        best, strong, weak = _argmax(values), _argmax(lower), _argmax(upper)
        ends = _at(lower, strong), None if np.isnan(upper).any() else _at(upper, weak)
        between = strong, weak
    else:
        best, strong, weak = _argmax(-values), _argmax(-upper), _argmax(-lower)
        ends = None if np.isnan(lower).any() else _at(lower, weak), _at(upper, strong)
        between = weak, strong
    named = [None if at is None else pairs[at] for at in between]
    assert best is not None
    return ExtremeBounds(
        value=float(values[best]),
        lower=ends[0],
        upper=ends[1],
        pair=pairs[best],
        lower_pair=named[0],
        upper_pair=named[1],
        method=method,
        needed=needed,
    )


def _argmax(values: Array) -> int | None:
    """Return the place of the largest number, or None if all are NaN. `np.nanargmax` would treat NaN as -inf."""
    numbers = np.flatnonzero(~np.isnan(values))
    return int(numbers[np.argmax(values[numbers])]) if len(numbers) else None


def _at(values: Array, at: int | None) -> float | None:
    return None if at is None else float(values[at])


def _table(
    kind: Extreme, column: int, plus: SliceMeans, minus: SliceMeans, shared: float, alpha: float
) -> tuple[list[Pair], Array]:
    """Return all ordered pairs of a column with value, lower and upper bound: simultaneous ones at `shared`, others at `alpha`."""
    k = len(plus.sizes)
    first, second = (np.array(side, dtype=np.intp) for side in zip(*itertools.permutations(range(k), 2), strict=True))
    pairs = [Pair(column, int(i), int(j)) for i, j in zip(first, second, strict=True)]
    has_rates = plus.has_rate[first] & minus.has_rate[second]
    columns = np.full((3, len(pairs)), math.nan)
    if has_rates.any():
        rated = int(plus.has_rate.sum())
        columns[:, has_rates] = bound_pairs(
            kind, plus, minus, first[has_rates], second[has_rates], rated, shared, alpha
        )
    return pairs, columns


def _method(kind: Extreme, columns: Sequence[SliceMeans]) -> str:
    if not all(map(math.isfinite, columns[0].bounds)):
        return "none"
    if kind == "gap" and columns[0].matched is not None:
        return MATCHED
    return SCORE if all(column.is_counted for column in columns) else GAFFKE


def _needed_samples(kind: Extreme, values: Array, lower: Array, upper: Array, limit: float | None) -> float | None:
    """Return how many times as many samples would decide: distances to a bound shrink with the root of the samples."""
    if limit is None or not np.isfinite(values).all() or np.isnan(lower).any() or np.isnan(upper).any():
        return None
    sign = 1.0 if kind == "gap" else -1.0
    strong, weak = (lower, upper) if kind == "gap" else (upper, lower)
    # Beyond the bound's own distance, power of 80 % needs that of 0.84 standard errors more.
    power = 1 + float(ndtri(_POWER)) / -float(ndtri(0.05))
    room = sign * (limit - values)
    if (room > 0).all():
        return float(np.max((np.abs(weak - values) * power / room) ** 2))
    is_beyond = room < 0
    if not is_beyond.any():
        return None
    beyond = (np.abs(strong - values)[is_beyond] * power / room[is_beyond]) ** 2
    return float(beyond.min()) if np.isfinite(beyond).any() else None
