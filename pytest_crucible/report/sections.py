"""The sections of all experiments, joined for the report formats. This module knows no section by its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pytest_crucible.records import (
    Analysis,
    Chart,
    Excerpt,
    Note,
    Row,
    Run,
    Statement,
    Table,
    View,
    experiment_name,
)
from pytest_crucible.records.views import Curves


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedSection:
    """One section over all experiments of a run."""

    name: str
    title: str
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...]
    curves: tuple[Curves, ...] = ()


def joined_sections(run: Run) -> tuple[JoinedSection, ...]:
    """Return the sections that have tables or charts, in the order in which they were registered."""
    views: dict[str, list[tuple[Analysis, View]]] = {}
    for analysis in run.experiments:
        for name, view in section_views(analysis):
            views.setdefault(name, []).append((analysis, view))
    joined = (_join_section(name, of_section, many=len(run.experiments) > 1) for name, of_section in views.items())
    return tuple(section for section in joined if section.tables or section.charts)


def section_views(analysis: Analysis) -> Iterator[tuple[str, View]]:
    """Yield the name and the view of each section of an experiment. One that raised has no view."""
    for name, outcome in analysis.sections.items():
        if outcome.view is not None:
            yield name, outcome.view


def section_notes(analysis: Analysis, *, verbosity: int = 0) -> Iterator[Note]:
    """Yield the notes of all sections of an experiment that belong to one verbosity."""
    for _, view in section_views(analysis):
        yield from (note for note in view.notes if note.verbosity == verbosity)


def section_excerpts(analysis: Analysis) -> Iterator[tuple[str, Excerpt]]:
    """Yield the title of the section and each sample that it shows."""
    for _, view in section_views(analysis):
        yield from ((view.title, excerpt) for excerpt in view.excerpts)


def section_methods(run: Run) -> tuple[Statement, ...]:
    """Return the sentences that sections add to the methods, each once."""
    statements = (
        statement for analysis in run.experiments for _, view in section_views(analysis) for statement in view.methods
    )
    return tuple(dict.fromkeys(statements))


def _join_section(name: str, views: Sequence[tuple[Analysis, View]], *, many: bool) -> JoinedSection:
    tables: dict[tuple[str, tuple[str, ...]], list[Table]] = {}
    for analysis, view in views:
        for table in view.tables:
            rows = tuple(replace(row, experiment=analysis.plan.nodeid) for row in table.rows)
            tables.setdefault((table.title, table.heads), []).append(replace(table, rows=rows))
    charts = tuple(_named_chart(chart, analysis, many) for analysis, view in views for chart in view.charts)
    curves = tuple(
        replace(picture, title=_with_name(picture.title, analysis, many))
        for analysis, view in views
        for picture in view.curves
    )
    whole = (_without_empty_columns(_stack_tables(parts)) for parts in tables.values())
    return JoinedSection(
        name=name,
        title=views[0][1].title,
        tables=tuple(table for table in whole if table.rows),
        charts=charts,
        curves=curves,
    )


def _stack_tables(tables: Sequence[Table]) -> Table:
    return replace(tables[0], rows=tuple(row for table in tables for row in table.rows))


def _without_empty_columns(table: Table) -> Table:
    """Return the table without its empty columns. Other empty cells become dashes."""
    filled = [k for k in range(len(table.heads)) if any(row.cells[k] for row in table.rows)]
    rows = tuple(_with_cells(row, tuple(row.cells[k] or "-" for k in filled)) for row in table.rows)
    return replace(table, heads=tuple(table.heads[k] for k in filled), rows=rows)


def _with_cells(row: Row, cells: tuple[str, ...]) -> Row:
    return replace(row, cells=cells)


def _named_chart(chart: Chart, analysis: Analysis, many: bool) -> Chart:
    return replace(chart, title=_with_name(chart.title, analysis, many))


def _with_name(title: str, analysis: Analysis, many: bool) -> str:
    return f"{experiment_name(analysis.plan.nodeid)}: {title}" if many else title
