"""Places with equal text behind them: a pattern is tried at the first, since a text that repeats itself would take much longer."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.guards.characters import Codes

REACH = 400
"""How much of the text behind a place is compared: no pattern of a rule reads further."""
FEW_PLACES, _MANY_PLACES = 32, 1_000
Hashes = NDArray[np.uint64]
# Odd, so that its powers have no common factor with 2**64.
_BASE = 0x9E3779B97F4A7C15


def drop_repeats(text: str, places: Sequence[int]) -> list[int]:
    """Return, in order, the first of all places with equal text behind them; few places are returned as they are."""
    if len(places) <= FEW_PLACES:
        return list(places)
    first = {text[place : place + REACH]: place for place in reversed(_unlike_neighbours(text, places))}
    return sorted(first.values())


def _unlike_neighbours(text: str, places: Sequence[int]) -> list[int]:
    """Return the places whose text is not that of the place before: comparing takes a fifth of the time of hashing."""
    kept, last = [], ""
    for place in places:
        part = text[place : place + REACH]
        if part != last:
            kept.append(place)
            last = part
    return kept


class LongText:
    """A long text, whose repeats are found by hashes: only parts with equal ones are compared."""

    def __init__(self, text: str, codes: Codes) -> None:
        """`codes` are numbers of the characters. Two characters may share one: equal hashes are compared as text."""
        self._text, self._codes = text, codes

    @functools.cached_property
    def _powers(self) -> Hashes:
        return np.cumprod(np.full(len(self._codes) + 1, _BASE, dtype=np.uint64), dtype=np.uint64)

    @functools.cached_property
    def _sums(self) -> Hashes:
        return np.concatenate(
            [np.zeros(1, dtype=np.uint64), np.cumsum(self._codes * self._powers[1:], dtype=np.uint64)]
        )

    def drop_repeats(self, places: Sequence[int]) -> list[int]:
        """Return, in order, the first of all places with equal text behind them."""
        if len(places) > _MANY_PLACES:
            places = _unlike_neighbours(self._text, places)
        if len(places) <= _MANY_PLACES:
            return drop_repeats(self._text, places)
        hashes = self._hash(np.array(places))
        in_order = np.sort(hashes)
        repeated = in_order[1:][in_order[1:] == in_order[:-1]]
        if not len(repeated):
            return list(places)
        is_repeated = np.isin(hashes, repeated)
        singles = itertools.compress(places, (~is_repeated).tolist())
        return sorted([*singles, *drop_repeats(self._text, list(itertools.compress(places, is_repeated.tolist())))])

    def _hash(self, places: NDArray[np.intp]) -> Hashes:
        """Return hashes of what is behind each place: polynomials modulo 2**64 (Karp and Rabin 1987)."""
        ends = np.minimum(places + REACH, len(self._codes))
        # The same power for equal parts, wherever they stand.
        hashes: Hashes = (self._sums[ends] - self._sums[places]) * self._powers[len(self._codes) - places]
        return hashes
