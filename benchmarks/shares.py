"""How often something happened in a simulation, beside the limit that it has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_crucible import stats


@dataclass(frozen=True, slots=True)
class Share:
    """How often something happened among so many. Over its limit (or under it) by more than chance it is liberal."""

    count: int = 0
    of: int = 0
    most: float = 1.0
    least: float = 0.0

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else math.nan

    @property
    def liberal(self) -> bool:
        if not self.of:
            return False
        interval = stats.wilson_interval(self.count, self.of, level=0.99)
        return interval.low > self.most or interval.high < self.least

    def __str__(self) -> str:
        shown = f"{self.value:.3f}".removeprefix("0") if self.of else ""
        return f"**{shown}**" if self.liberal else shown


Pick = Callable[[Sequence[str]], str]


def largest(cells: Sequence[str]) -> str:
    """Return the cell with the largest share, without those that show none."""
    return max(filter(None, cells), key=_share, default="")


def smallest(cells: Sequence[str]) -> str:
    """Return the cell with the smallest share, without those that show none."""
    return min(filter(None, cells), key=_share, default="")


def _share(cell: str) -> float:
    return float(cell.strip("*"))


def worst_of_sizes(rows: Iterable[Sequence[str]], name: Sequence[int], picks: Mapping[int, Pick]) -> list[list[str]]:
    """Return one row for each name (the cells of those columns), with what `picks` choose of its sizes."""
    by_name: dict[tuple[str, ...], list[Sequence[str]]] = {}
    for row in rows:
        by_name.setdefault(tuple(row[column] for column in name), []).append(row)
    return [
        [*names, *(pick([row[column] for row in sizes]) for column, pick in picks.items())]
        for names, sizes in by_name.items()
    ]
