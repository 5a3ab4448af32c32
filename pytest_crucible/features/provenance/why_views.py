"""The parts that each verdict of a run is made of, as views: the lines of `crucible why` as the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_crucible.features.provenance.build_graph import build_graph
from pytest_crucible.features.provenance.graph import Graph, Node
from pytest_crucible.features.provenance.load_verdict_facts import load_verdict_facts
from pytest_crucible.features.provenance.why_lines import finding_line, numbers_line, verdict_parts
from pytest_crucible.records import Note, Row, Run, Table, View
from pytest_crucible.store.runs import RunStore


def why_views(store: RunStore, run: Run) -> Mapping[tuple[str, str], View]:
    """Return the view of each verdict by its nodeid and subject. Raises StoreError."""
    graph = build_graph(store, run, load_verdict_facts(store, run).values())
    verdicts = (node for node in graph.nodes.values() if node.type == "verdict")
    return {(node.facts["nodeid"], node.facts["subject"]): _view(graph, node) for node in verdicts}


def _view(graph: Graph, verdict: Node) -> View:
    table = Table(title=f"Why {verdict.label}", heads=("part", "finding"), rows=tuple(_rows(graph, verdict)))
    return View(title=verdict.label, notes=(Note(text=finding_line(verdict)),), tables=(table,))


def _rows(graph: Graph, verdict: Node) -> Iterator[Row]:
    numbers = numbers_line(graph, verdict)
    parts = (("numbers", [numbers] if numbers else []), *verdict_parts(graph, verdict))
    # A part of several lines names itself in each, so that every row has a head.
    return (Row(cells=(name, line.strip())) for name, lines in parts for line in lines)
