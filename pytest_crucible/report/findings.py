"""What the antagonist found, by name, severity and arm: as terminal lines, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tabulate import tabulate

from pytest_crucible.numerals import with_interval
from pytest_crucible.records import Analysis, Estimate, FindingTally
from pytest_crucible.report.grids import Grid, Row, named

HEADS = ("finding", "arm", "HIGH", "MEDIUM", "LOW", "explained", "share of samples", "n")
AGREEMENT = ("finding", "arm", "precision", "found", "recall", "labelled")


def findings_grid(analyses: Sequence[Analysis]) -> Grid:
    """How often, and how grave: a row an arm and name."""
    return Grid(heads=HEADS, rows=tuple(_rows(analyses, _often)))


def agreement_grid(analyses: Sequence[Analysis]) -> Grid:
    """How right, where a person has looked too."""
    return Grid(heads=AGREEMENT, rows=tuple(_rows(analyses, lambda one: _right(one) if one.precision else None)))


def findings_lines(analyses: Sequence[Analysis]) -> Iterator[str]:
    """Both tables of each experiment that has findings."""
    for analysis in analyses:
        if analysis.findings:
            yield f"{named(analysis.plan.nodeid)}: findings of the antagonist"
            for grid in (findings_grid([analysis]), agreement_grid([analysis])):
                yield from _aligned(grid) if grid.rows else []
            yield ""


def _rows(analyses: Sequence[Analysis], cells: Callable[[FindingTally], tuple[str, ...] | None]) -> Iterator[Row]:
    for analysis in analyses:
        for one in analysis.findings:
            if (shown := cells(one)) is not None:
                yield Row(experiment=analysis.plan.nodeid, cells=shown)


def finding_document(one: FindingTally) -> dict[str, Any]:
    """The keys of docs/reference/json.md."""
    return {
        "arm": one.arm,
        "name": one.name,
        "severities": dict(one.severities),
        "explained": one.explained,
        "rate": _share(one.rate),
        "precision": _share(one.precision),
        "recall": _share(one.recall),
    }


def _often(one: FindingTally) -> tuple[str, ...]:
    return (one.name, one.arm, *map(str, one.severities.values()), str(one.explained), *_shown(one.rate))


def _right(one: FindingTally) -> tuple[str, ...]:
    return (one.name, one.arm, *_shown(one.precision), *_shown(one.recall))


def _shown(one: Estimate | None) -> tuple[str, str]:
    return ("-", "0") if one is None or one.value is None else (with_interval(one.value, one.interval), f"{one.n:,}")


def _share(one: Estimate | None) -> dict[str, Any] | None:
    if one is None:
        return None
    ends = (one.interval.low, one.interval.high) if one.interval else (None, None)
    return {"value": one.value, "n": one.n, "low": ends[0], "high": ends[1], "method": one.method}


def _aligned(grid: Grid) -> list[str]:
    """Words and intervals to the left, counts to the right."""
    align = ["right" if grid.is_number(column) else "left" for column in range(len(grid.heads))]
    rows = [grid.heads, *(row.cells for row in grid.rows)]
    return tabulate(rows, tablefmt="plain", colalign=align, disable_numparse=True).splitlines()
