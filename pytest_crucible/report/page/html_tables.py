"""Table cells as HTML: estimates and their intervals are aligned on the decimal point."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

from pytest_crucible.records import Row, Table, experiment_name
from pytest_crucible.report.align_numbers import DIGIT, POINT, align_estimates, typeset
from pytest_crucible.report.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of a page's table. `kind` decides its layout: word, number, estimate or verdict."""

    kind: str
    head: str
    text: str
    interval: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Rows under one name, or under none."""

    name: str
    rows: tuple[tuple[Row, tuple[Cell, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table as a page sets it."""

    heads: tuple[tuple[str, str], ...]
    """Kind and text of each column's head."""
    bodies: tuple[Body, ...]


def laid_out(grid: Table, many: bool = False) -> Layout:
    """Return the table's cells by column; with several experiments the rows of each are under its name."""
    columns = [_column(grid, k) for k in range(len(grid.heads))]
    heads = tuple(
        (column[0].kind if column else "word", head) for column, head in zip(columns, grid.heads, strict=True)
    )
    rows = tuple(zip(grid.rows, zip(*columns, strict=True), strict=True))
    return Layout(heads=heads, bodies=tuple(_bodies(rows)) if many else (Body(name="", rows=rows),))


def blanks(text: str) -> Markup:
    """Return a text with its aligning blanks in elements of their own."""
    # Style sheets of a page too narrow for columns hide these elements.
    return Markup(re.sub(f"[{DIGIT}{POINT}]+", r'<span class="blank">\g<0></span>', str(escape(text))))


def _bodies(rows: tuple[tuple[Row, tuple[Cell, ...]], ...]) -> Iterator[Body]:
    for nodeid, of_one in groupby(rows, key=lambda pair: pair[0].experiment):
        yield Body(name=experiment_name(nodeid), rows=tuple(of_one))


def _column(grid: Table, k: int) -> list[Cell]:
    head, cells = grid.heads[k], [row.cells[k] for row in grid.rows]
    if head == "verdict":
        return [Cell(kind="verdict", head=head, text=cell) for cell in cells]
    if grid.is_number(k):
        return [Cell(kind="number", head=head, text=typeset(cell)) for cell in cells]
    if any(cell.endswith("]") for cell in cells):
        return [
            Cell(kind="estimate", head=head, text=text, interval=interval) for text, interval in align_estimates(cells)
        ]
    return [Cell(kind="word", head=head, text=printable(cell, 300)) for cell in cells]
