"""Grids of settings: the complete cells, and the cells in which two levels of a setting can be compared."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

Point = Mapping[str, Hashable]
Cell = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The members of a sweep by the cell that their settings name, replicates (trainings of other seeds) together."""

    settings: tuple[str, ...]
    """Settings with two levels or more, the replicates' own not among them."""
    cells: Mapping[Cell, tuple[int, ...]]
    """The levels of the settings, in their order -> positions of the members."""
    incomplete: frozenset[Cell] = field(default=frozenset())
    """Cells with a member that lacks data. The rest of such a cell may be the luckier part."""

    def levels(self, setting: str) -> tuple[Hashable, ...]:
        """Return the levels of a setting that have a whole cell, in the order of the grid."""
        place = self.settings.index(setting)
        return tuple(dict.fromkeys(cell[place] for cell in self.cells if cell not in self.incomplete))

    def blocks(self, setting: str, levels: Sequence[Hashable]) -> dict[Hashable, list[tuple[int, ...]]]:
        """Return each level's cells, where the other settings are alike: only combinations in which all levels are whole.

        >>> points = [{"steps": steps, "rank": rank, "seed": 1} for steps in (9, 30) for rank in (8, 32)]
        >>> grid = arrange_grid(points, "seed", [True, True, True, False])
        >>> grid.blocks("steps", [9, 30])
        {9: [(0,)], 30: [(2,)]}
        """
        place = self.settings.index(setting)
        whole: dict[Cell, dict[Hashable, tuple[int, ...]]] = {}
        for cell, members in self.cells.items():
            if cell not in self.incomplete:
                whole.setdefault(cell[:place] + cell[place + 1 :], {})[cell[place]] = members
        shared = [by_level for by_level in whole.values() if set(levels) <= set(by_level)]
        return {level: [by_level[level] for by_level in shared] for level in levels}


def arrange_grid(points: Sequence[Point], replicate: str, whole: Sequence[bool]) -> Grid:
    """Return the grid of members with these settings; `replicate` is the setting that only repeats a training (the seed)."""
    names = [name for name in points[0] if name != replicate] if points else []
    settings = tuple(name for name in names if len({point[name] for point in points}) > 1)
    cells: dict[Cell, list[int]] = {}
    for member, point in enumerate(points):
        cells.setdefault(tuple(point[name] for name in settings), []).append(member)
    incomplete = (cell for cell, members in cells.items() if not all(whole[member] for member in members))
    return Grid(
        settings=settings,
        cells={cell: tuple(members) for cell, members in cells.items()},
        incomplete=frozenset(incomplete),
    )
