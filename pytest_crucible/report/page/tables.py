"""A table's cells laid out for a page: estimates and their intervals aligned on the decimal point."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_crucible.report.grids import Grid, Row
from pytest_crucible.report.printable import printable

_ESTIMATE = re.compile(r"(\S+) \[(\S+), (\S+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What stands in a cell. `kind` is how it is set: word, number, estimate or verdict."""

    kind: str
    head: str
    text: str
    interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table as a page sets it."""

    heads: tuple[tuple[str, str], ...]
    """Kind and text of each column's head."""
    rows: tuple[tuple[Row, tuple[Cell, ...]], ...]


def laid_out(grid: Grid, many: bool = False) -> Layout:
    """The table's cells by column; with several experiments each row names its own."""
    shown = grid.with_names() if many else grid
    columns = [_column(shown, k) for k in range(len(shown.heads))]
    heads = tuple(
        (column[0].kind if column else "word", head) for column, head in zip(columns, shown.heads, strict=True)
    )
    return Layout(heads=heads, rows=tuple(zip(shown.rows, zip(*columns, strict=True), strict=True)))


def _column(grid: Grid, k: int) -> list[Cell]:
    head, cells = grid.heads[k], [row.cells[k] for row in grid.rows]
    if head == "verdict":
        return [Cell(kind="verdict", head=head, text=cell) for cell in cells]
    if grid.is_number(k):
        return [Cell(kind="number", head=head, text=_typeset(cell)) for cell in cells]
    if any(cell.endswith("]") for cell in cells):
        return [Cell(kind="estimate", head=head, text=text, interval=interval) for text, interval in aligned(cells)]
    return [Cell(kind="word", head=head, text=printable(cell, 300)) for cell in cells]


def aligned(cells: Sequence[str]) -> list[tuple[str, str]]:
    """Each cell as its number and its interval, padded so that decimal points stand under each other.

    >>> aligned(["0.5 [0.25, 0.75]", "-10.25 [-11, -9]"])[0][0] == chr(0x2007) * 2 + "0.5" + chr(0x2007)
    True
    """
    found = [_ESTIMATE.fullmatch(cell) for cell in cells]
    numbers = [_padded([match[k] if match else "" for match in found]) for k in (1, 2, 3)]
    return [
        (numbers[0][k], f"[{numbers[1][k]}, {numbers[2][k]}]") if match else (_typeset(cell), "")
        for k, (cell, match) in enumerate(zip(cells, found, strict=True))
    ]


def _padded(texts: Sequence[str]) -> list[str]:
    """Figure spaces are as wide as a digit, punctuation spaces as a point."""
    parts = [text.partition(".") for text in texts]
    before = max((len(whole) for whole, _, _ in parts), default=0)
    after = max((len(decimals) for _, _, decimals in parts), default=0)
    return [
        "\u2007" * (before - len(whole))
        + _typeset(whole)
        + (point or ("\u2008" if after else ""))
        + decimals
        + "\u2007" * (after - len(decimals))
        for whole, point, decimals in parts
    ]


def _typeset(text: str) -> str:
    """A minus is as wide as a plus."""
    return text.replace("-", "\u2212") if re.match(r"-[\d.i]", text) else text
