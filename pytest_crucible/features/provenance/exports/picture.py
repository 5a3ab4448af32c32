"""A picture of a graph as SVG: layers from verdicts down to what they were made of."""

from __future__ import annotations

from pytest_crucible.features.provenance.exports.folding import node_text
from pytest_crucible.features.provenance.graph import Graph
from pytest_crucible.records.views import Diagram, DiagramEdge, DiagramNode
from pytest_crucible.report.diagrams import draw_diagram


def draw_picture(graph: Graph) -> str:
    """Return an SVG element of boxes and arrows."""
    nodes = (DiagramNode(key=node.key, label=node_text(node), kind=node.kind) for node in graph.nodes.values())
    edges = (DiagramEdge(source=each.source, target=each.target) for each in graph.relations)
    return draw_diagram(Diagram(title="Provenance", nodes=tuple(nodes), edges=tuple(edges)))
