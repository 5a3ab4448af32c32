"""Pairwise judgements as a table of wins, and the check that such a table can be rated."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity

Judgement = tuple[Hashable, Hashable] | tuple[Hashable, Hashable, float]
"""(winner, loser), or (first, second, score of the first): 1 won, 0.5 tie, 0 lost, or anything between."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Judgements as arrays: positions of both items, and the score of the first."""

    items: tuple[Hashable, ...]
    first: Codes
    second: Codes
    scores: Array

    def wins(self) -> Array:
        """Return items x items: how often the row won against the column, a tie being half a win of each."""
        size = len(self.items)
        forwards = np.bincount(self.first * size + self.second, weights=self.scores, minlength=size * size)
        backwards = np.bincount(self.second * size + self.first, weights=1 - self.scores, minlength=size * size)
        return np.asarray((forwards + backwards).reshape(size, size), dtype=np.float64)


def count_wins(judgements: Iterable[Judgement]) -> tuple[Array, tuple[Hashable, ...]]:
    """Return the table of wins, row over column, and the items in order of appearance.

    A tie is half a win of each. Raises ValueError for an item against itself and for scores outside [0, 1].

    >>> wins, items = count_wins([("a", "b"), ("b", "a"), ("a", "b", 0.5), ("a", "c")])
    >>> items, wins.tolist()
    (('a', 'b', 'c'), [[0.0, 1.5, 1.0], [1.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
    """
    pairs = read_judgements(judgements)
    return pairs.wins(), pairs.items


def read_judgements(judgements: Iterable[Judgement]) -> Pairs:
    """Return judgements as arrays.

    Raises ValueError for an item against itself and for scores outside [0, 1].
    """
    positions: dict[Hashable, int] = {}
    rows = []
    for winner, loser, *score in judgements:
        codes = positions.setdefault(winner, len(positions)), positions.setdefault(loser, len(positions))
        rows.append((*codes, score[0] if score else 1.0))
    first, second, scores = (np.array(column) for column in (zip(*rows, strict=True) if rows else ((), (), ())))
    against_itself, invalid = int(np.sum(first == second)), int(np.sum(~((scores >= 0) & (scores <= 1))))
    if against_itself or invalid:
        raise ValueError(
            f"of {len(rows)} judgements {against_itself} set an item against itself and {invalid} have a score outside [0, 1]"
        )
    return Pairs(tuple(positions), first.astype(np.intp), second.astype(np.intp), scores.astype(np.float64))


def check_wins(wins: npt.ArrayLike, items: Sequence[Hashable] | None) -> tuple[Array, tuple[Hashable, ...]]:
    """Return a table of wins with its item names, by default 0, 1, ...

    Raises ValueError for an invalid table, NotEnoughData for one without wins.
    """
    # Ties make halves, so wins need not be whole numbers.
    table = np.asarray(wins, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise ValueError(f"expected a table of items x items, not the shape {table.shape}")
    names = tuple(range(len(table))) if items is None else tuple(items)
    if len(names) != len(table):
        raise ValueError(f"{len(names)} items for {len(table)} rows: every row needs an item")
    invalid = int(np.sum(~(np.isfinite(table) & (table >= 0)))) + int(np.sum(np.diag(table) != 0))
    if invalid:
        raise ValueError(f"{invalid} of {table.size} entries are negative, not finite, or wins over oneself")
    if len(table) < 2 or not table.any():
        raise NotEnoughData(
            f"{quantity(len(table), 'item')} and {table.sum():g} wins: ratings need 2 items and a comparison"
        )
    return table, names


def check_connected(wins: Array, items: tuple[Hashable, ...]) -> None:
    """Raise ValueError, naming the items, unless a chain of wins leads from every item to every other one.

    Otherwise the likelihood grows without end as some ratings drift away from the others (Ford 1957).
    """
    for table, lacks in ((wins, "lost to"), (wins.T, "won against")):
        reached = _reachable(table > 0)
        if not reached.all():
            named, others = _names(items, ~reached), _names(items, reached)
            raise ValueError(
                f"no finite ratings of {len(items)} items: none of {named} ever {lacks} one of {others}; "
                f"collect such comparisons, rate the groups apart, or set ridge="
            )


def _reachable(edges: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which items a chain of edges from the first one leads to."""
    reached = np.zeros(len(edges), dtype=bool)
    reached[0] = True
    newly = reached
    while newly.any():
        newly = edges[newly].any(axis=0) & ~reached
        reached = reached | newly
    return reached


def _names(items: tuple[Hashable, ...], chosen: npt.NDArray[np.bool_]) -> str:
    names = [str(item) for item, is_chosen in zip(items, chosen, strict=True) if is_chosen]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
