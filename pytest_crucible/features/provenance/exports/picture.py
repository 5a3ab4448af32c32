"""A picture of a graph as SVG: layers from verdicts down to what they were made of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from pytest_crucible.features.provenance.exports.folding import in_layers, node_text
from pytest_crucible.features.provenance.graph import Graph, Node
from pytest_crucible.report.pictures import element, svg_text
from pytest_crucible.report.printable import printable_cell

# Pixels.
_WIDTH, _HEIGHT, _GAP, _BETWEEN, _LINE = 190, 48, 24, 56, 15
# Characters of a line in a box, and lines.
_CHARACTERS, _LINES = 28, 2
STYLE = """
.provenance rect { fill: var(--raised); stroke: var(--soft); }
.provenance .activity rect { stroke-dasharray: 4 3; fill: var(--paper); }
.provenance text { fill: var(--ink); font-size: 12px; } .provenance path { fill: none; stroke: var(--soft); }
.provenance marker path { fill: var(--soft); }
"""


def draw_picture(graph: Graph) -> str:
    """Return an SVG element of boxes and arrows."""
    layers = list(in_layers(graph))
    width = max((len(layer) for layer in layers), default=0) * (_WIDTH + _GAP)
    height = len(layers) * (_HEIGHT + _BETWEEN)
    places = {
        node.key: (
            (width - len(layer) * (_WIDTH + _GAP)) / 2 + column * (_WIDTH + _GAP),
            row * (_HEIGHT + _BETWEEN) + 1,
        )
        for row, layer in enumerate(layers)
        for column, node in enumerate(layer)
    }
    arrows = (element("path", d=d, marker_end="url(#tip)") for d in _arrows(graph, places))
    boxes = (_box(graph.nodes[key], *place) for key, place in places.items())
    size = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    return svg_text(element("svg", _tip(), *arrows, *boxes, class_="provenance", role="img", **size))


def _tip() -> ElementTree.Element:
    path = element("path", d="M0 0L8 4L0 8z")
    marker = element(
        "marker", path, id="tip", viewBox="0 0 8 8", refX=8, refY=4, markerWidth=8, markerHeight=8, orient="auto"
    )
    return element("defs", marker)


def _arrows(graph: Graph, places: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    for x, y, to_x, to_y in dict.fromkeys((*places[each.source], *places[each.target]) for each in graph.relations):
        start, end, above = x + _WIDTH / 2, to_x + _WIDTH / 2, y + _HEIGHT
        middle = (above + to_y) / 2
        yield f"M{start:g} {above:g}C{start:g} {middle:g} {end:g} {middle:g} {end:g} {to_y:g}"


def _box(node: Node, x: float, y: float) -> ElementTree.Element:
    lines = textwrap.wrap(printable_cell(node_text(node)), _CHARACTERS, max_lines=_LINES, placeholder="…")
    texts = [
        element("text", line, x=x + 10, y=y + _HEIGHT / 2 + 4 + (place - (len(lines) - 1) / 2) * _LINE)
        for place, line in enumerate(lines)
    ]
    frame = element("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT - 2, rx=8 if node.kind == "entity" else 0)
    whole = element("title", f"{node.type}: {node.label}")
    return element("g", whole, frame, *texts, class_=node.kind)
