"""The HTML page: templates filled with the report's cells, its pictures and its samples."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pytest_crucible.records import Row, State, Table, View, experiment_name
from pytest_crucible.report.model import Chapter, Report
from pytest_crucible.report.page_samples import ROOM, Archive, SamplePanel, archive_samples, excerpt_panels, slowest
from pytest_crucible.report.pictures import chart_forest, differences, distribution, draw_curves, levels, pairs, waiting
from pytest_crucible.report.printable import LONGEST_ESCAPE, printable
from pytest_crucible.report.sections import worst_states
from pytest_crucible.report.tables import DIGIT, POINT, align_estimates, typeset

HERE = Path(__file__).parent / "page"
# A mark is added to the word, and colour only repeats it.
MARKS = {"met": "✓", "missed": "✗", "undecided": "?"}
# Experiments up to which the samples of all are open.
FEW = 3
# Samples by whether the candidate (rows) and whether the baseline (columns) is right.
Agreement = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One experiment as the page shows it."""

    chapter: Chapter
    state: State | None
    """Its worst verdict."""
    pictures: tuple[Markup, ...]
    agreements: tuple[tuple[str, Agreement], ...]
    """(name, agreement of the arms) for each binary metric that a target or comparison names."""
    excerpts: tuple[tuple[str, tuple[SamplePanel, ...]], ...]
    """Title of a section, and the samples that it shows."""
    slowest: tuple[SamplePanel, ...]
    archive: Archive


def render_html(report: Report, chapters: Sequence[Chapter]) -> str:
    """Return the report as a self-contained page. `chapters` are read while it is made."""
    style, script = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    template = _environment().get_template("page.html.j2")
    states = worst_states(report.run)
    return template.render(
        report=report,
        scenes=[
            _scene(chapter, states.get(chapter.analysis.plan.nodeid), ROOM // len(chapters), report.run.seed)
            for chapter in chapters
        ],
        few=FEW,
        forests=list(differences(report.run)),
        levels=list(levels(report.run)),
        marks=MARKS,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        numbers={reference.key: number for number, reference in enumerate(report.references, start=1)},
        many=len(report.run.experiments) > 1,
    )


def render_view(view: View) -> str:
    """Return a page of a view that belongs to no run."""
    style = (HERE / "page.css").read_text(encoding="utf-8")
    template = _environment().get_template("view.html.j2")
    return template.render(view=view, style=Markup(style), style_hash=_hash(style), marks=MARKS, many=False)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_show_text,
    )
    environment.filters["laid_out"] = laid_out
    environment.filters["printable"] = printable
    environment.filters["blanks"] = blanks
    environment.filters["svg"] = Markup
    environment.filters["forest_of"] = chart_forest
    environment.filters["drawn_curves"] = draw_curves
    return environment


def _show_text(value: Any) -> Any:
    """Return what a template shows of a value: of any text but markup, control characters as escapes."""
    return printable(value, len(value) * LONGEST_ESCAPE) if type(value) is str else value


def _scene(chapter: Chapter, state: State | None, room: int, seed: int) -> Scene:
    return Scene(
        chapter=chapter,
        state=state,
        pictures=tuple(Markup(picture) for picture in _pictures(chapter) if picture),
        agreements=tuple(_agreements(chapter)),
        excerpts=tuple(excerpt_panels(chapter).items()),
        slowest=slowest(chapter),
        archive=archive_samples(chapter, room=room, seed=seed),
    )


def _pictures(chapter: Chapter) -> Iterator[str]:
    arms, columns = chapter.arms, chapter.columns
    for metric in chapter.judged:
        if not _is_binary(chapter, metric):
            scores = columns.scores[metric]
            yield distribution(metric, list(zip(arms, scores, strict=True)))
            if len(arms) > 1:
                yield pairs(metric, (arms[0], scores[0]), (arms[1], scores[1]))
    yield waiting(list(zip(arms, columns.latency_s, strict=True)))


def _agreements(chapter: Chapter) -> Iterator[tuple[str, Agreement]]:
    for metric in chapter.judged:
        if len(chapter.arms) > 1 and _is_binary(chapter, metric):
            ours, theirs = chapter.columns.scores[metric][:2]
            # Where lower is better, the metric counts a fault: a yes is wrong.
            right = chapter.facts[metric].direction == "higher"
            both = [
                ((a > 0.5) is right, (b > 0.5) is right)
                for a, b in zip(ours, theirs, strict=True)
                if not math.isnan(a + b)
            ]
            yield metric, tuple(tuple(both.count((mine, other)) for other in (True, False)) for mine in (True, False))


def _is_binary(chapter: Chapter, metric: str) -> bool:
    """Return whether each score of a metric is right or wrong."""
    # With repeats a sample's mean may lie between right and wrong.
    return chapter.analysis.plan.draws(0).size == 1 and chapter.analysis.kinds[metric] == "binary"


def _hash(text: str) -> str:
    """Return the hash by which a content security policy allows a style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


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
