"""Graphs and timelines as pages: HTML, with a picture of the graph as SVG, and Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.features.provenance.exports.folding import node_text
from pytest_crucible.features.provenance.exports.mermaid_graphs import MOST_NODES, draw_graph, fold_until_readable
from pytest_crucible.features.provenance.exports.steps import first_steps
from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.features.provenance.step_texts import NamedText, step_texts
from pytest_crucible.features.provenance.timeline import (
    Timeline,
    find_start,
    heading,
    step_text,
    time_text,
    unknown_text,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Row, Table, View
from pytest_crucible.records.views import Diagram, DiagramEdge, DiagramNode
from pytest_crucible.report.diagrams import draw_diagram
from pytest_crucible.report.html import A_TEXT, MARKS, render_page, text_of
from pytest_crucible.report.markdown import markdown_table, plain, quoted_text
from pytest_crucible.report.printable import AN_ID, printable, printable_cell
from pytest_crucible.stats.number_format import quantity

_HERE = Path(__file__).parent
# Nodes, relations and steps in a page; a larger one is not read, and other formats have all.
MOST_ROWS = 2_000
# Texts that a reader looks for first; the others open at a click.
_OPENED = ("over", "because", "user", "prompt", "reply", "tool call", "no reply", "scored")
_STEPS = """
.steps { list-style-position: outside; padding-left: 2.5rem; } .steps li { border-bottom: 1px solid var(--line); padding: .2rem 0; }
.steps li::marker, .time { color: var(--soft); font-size: .85rem; } .steps p { margin: .2rem 0; }
.steps .claim { border-left: 3px dashed var(--undecided); padding-left: .75rem; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOnPage:
    """A step with its texts, as a page shows it."""

    kind: str
    time: str
    title: str
    is_claim: bool
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineOnPage:
    """A timeline as a page shows it."""

    heading: str
    unknown: str
    steps: tuple[StepOnPage, ...]


def timelines_html(timelines: Sequence[Timeline]) -> str:
    """Return a page with the steps of each timeline; texts open at a click, without a script."""
    return render_page(
        _HERE / "trace.html.j2",
        more_style=_STEPS,
        title=f"Trace of {printable(timelines[0].sample, AN_ID)} in run {timelines[0].run}" if timelines else "Trace",
        timelines=[_timeline_on_page(timeline) for timeline in first_steps(timelines, MOST_ROWS)],
        opened=_OPENED,
    )


def _timeline_on_page(timeline: Timeline) -> TimelineOnPage:
    start, texts = find_start(timeline.steps), step_texts(timeline.steps)
    steps = tuple(
        StepOnPage(
            kind=step.kind,
            time=time_text(step, start),
            title=printable(step.title),
            is_claim=step.is_claim,
            texts=tuple((name, text_of(value)) for name, value in own),
        )
        for step, own in zip(timeline.steps, texts, strict=True)
    )
    return TimelineOnPage(heading=printable(heading(timeline)), unknown=printable(unknown_text(timeline)), steps=steps)


def timelines_markdown(timelines: Sequence[Timeline]) -> str:
    """Return the steps of each timeline as numbered lines, with their texts in code blocks."""
    return "\n".join(line for timeline in first_steps(timelines, MOST_ROWS) for line in _markdown_lines(timeline))


def _markdown_lines(timeline: Timeline) -> Iterator[str]:
    start = find_start(timeline.steps)
    yield from (f"## {plain(heading(timeline))}", "")
    if timeline.unknown:
        yield from (plain(unknown_text(timeline)), "")
    for number, (step, texts) in enumerate(zip(timeline.steps, step_texts(timeline.steps), strict=True), start=1):
        marker = f"{number}. "
        yield marker + plain(f"{time_text(step, start)} {step_text(step)}")
        # What belongs to an item of a list is indented as far as its text.
        yield from (f"{' ' * len(marker)}{line}".rstrip() for text in texts for line in _quote(text))
    yield ""


def _quote(text: NamedText) -> Iterator[str]:
    name, value = text
    if not name:
        yield plain(str(value))
        return
    quoted = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for line in quoted_text(plain(name), quoted, A_TEXT):
        yield from line.split("\n")


def graph_html(graph: Graph) -> str:
    """Return a page with a picture of the graph, and tables of its nodes and relations."""
    picture = draw_picture(next(fold_until_readable(graph, MOST_NODES), graph))
    return render_page(_HERE / "graph.html.j2", view=_graph_view(graph), picture=picture, marks=MARKS, many=False)


def graph_markdown(graph: Graph) -> str:
    """Return a Mermaid diagram of the graph, which GitHub draws, and tables of its nodes and relations."""
    view = _graph_view(graph)
    lines = [f"# {plain(view.title)}", "", "```mermaid", draw_graph(graph, "flowchart").rstrip(), "```", ""]
    for table in view.tables:
        lines += [f"## {plain(table.title)}", "", *markdown_table(table, many=False), "", plain(table.note), ""]
    return "\n".join(lines)


def _graph_view(graph: Graph) -> View:
    nodes = [Row(cells=(node.label, node.type, _facts(node.facts))) for node in graph.nodes.values()]
    labels = {key: node_text(node) for key, node in graph.nodes.items()}
    relations = [Row(cells=(labels[each.source], each.kind, labels[each.target])) for each in graph.relations]
    tables = (
        _table("Entities and activities", ("name", "type", "facts"), nodes),
        _table("Relations", ("from", "relation", "to"), relations),
    )
    return View(title=_graph_title(graph), tables=tables)


def _graph_title(graph: Graph) -> str:
    verdicts = [node.label for node in graph.nodes.values() if node.type == "verdict"]
    if not verdicts:
        return "Provenance"
    return f"Provenance of {printable_cell(verdicts[0]) if len(verdicts) == 1 else quantity(len(verdicts), 'verdict')}"


def _table(title: str, heads: tuple[str, ...], rows: Sequence[Row]) -> Table:
    left = len(rows) - MOST_ROWS
    note = f"{quantity(left, 'more row')}, which .jsonl and .csv have." if left > 0 else ""
    return Table(title=title, heads=heads, rows=tuple(rows[:MOST_ROWS]), note=note)


def _facts(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_fact(value)}" for name, value in facts.items())


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} = {_fact(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(_fact, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "unknown" if value is None else str(value)


def draw_picture(graph: Graph) -> str:
    """Return an SVG element of boxes and arrows."""
    nodes = (DiagramNode(key=node.key, label=node_text(node), kind=node.kind) for node in graph.nodes.values())
    edges = (DiagramEdge(source=each.source, target=each.target) for each in graph.relations)
    return draw_diagram(Diagram(title="Provenance", nodes=tuple(nodes), edges=tuple(edges)))
