"""A picture of boxes and arrows as SVG, in layers: arrows point down."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from xml.etree import ElementTree

from pytest_crucible.records.views import Diagram, DiagramEdge, DiagramNode
from pytest_crucible.report.pictures import element, svg_text
from pytest_crucible.report.printable import printable_cell

# Pixels.
_WIDTH, _HEIGHT, _GAP, _BETWEEN, _LINE = 190, 48, 24, 56, 15
# Characters of a line in a box, and lines.
_CHARACTERS, _LINES = 27, 2
# Boxes side by side: a page is as wide. More of a layer stand in rows below each other.
_MOST_BESIDE = 6
Place = tuple[float, float]


def layers(keys: Collection[str], edges: Iterable[tuple[str, str]]) -> Iterator[list[str]]:
    """Yield keys in layers: each stands below all that have an edge to it.

    >>> list(layers("abcd", [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]))
    [['a'], ['b', 'c'], ['d']]
    """
    waiting = dict.fromkeys(keys, 0)
    targets = defaultdict(list)
    for source, target in edges:
        waiting[target] += 1
        targets[source].append(target)
    layer = [key for key, count in waiting.items() if not count]
    placed: set[str] = set()
    while layer:
        yield layer
        placed.update(layer)
        for target in (target for key in layer for target in targets[key]):
            waiting[target] -= 1
        layer = list(dict.fromkeys(t for key in layer for t in targets[key] if not waiting[t] and t not in placed))
    # What is on a circle, or below one.
    if rest := [key for key in waiting if key not in placed]:
        yield rest


def draw_diagram(diagram: Diagram) -> str:
    """Return an SVG element of boxes and arrows."""
    edges = [(edge.source, edge.target) for edge in diagram.edges]
    rows = [row for layer in layers([node.key for node in diagram.nodes], edges) for row in _rows(layer)]
    width = max(map(len, rows), default=0) * (_WIDTH + _GAP)
    height = len(rows) * (_HEIGHT + _BETWEEN)
    places = dict(_places(rows, width))
    arrows = (arrow for edge in dict.fromkeys(edges) for arrow in _arrow(*edge, places))
    boxes = (_box(node, *places[node.key]) for node in diagram.nodes)
    labels = (_edge_label(edge, places) for edge in diagram.edges if edge.label)
    size = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    inside = (element("title", diagram.title), *arrows, *boxes, *labels)
    return svg_text(element("svg", *inside, class_="diagram", role="img", **size))


def _rows(layer: Sequence[str]) -> Iterator[Sequence[str]]:
    return (layer[start : start + _MOST_BESIDE] for start in range(0, len(layer), _MOST_BESIDE))


def _places(rows: Sequence[Sequence[str]], width: int) -> Iterator[tuple[str, Place]]:
    """Yield each key with the upper left corner of its box; rows are centred."""
    for number, row in enumerate(rows):
        left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
        for column, key in enumerate(row):
            yield key, (left + column * (_WIDTH + _GAP), number * (_HEIGHT + _BETWEEN) + 1)


def _arrow(source: str, target: str, places: Mapping[str, Place]) -> Iterator[ElementTree.Element]:
    """Yield line and tip of an arrow: down to the upper side of a box, or around to the lower side of one that is not below."""
    (x, y), (to_x, to_y) = places[source], places[target]
    start, end, below = x + _WIDTH / 2, to_x + _WIDTH / 2, y + _HEIGHT
    is_down = to_y > y
    to = to_y if is_down else to_y + _HEIGHT
    bend = (below + to) / 2 if is_down else max(below, to) + 2 * _BETWEEN / 3
    back = to - 8 if is_down else to + 8
    yield element("path", d=f"M{start:g} {below:g}C{start:g} {bend:g} {end:g} {bend:g} {end:g} {to:g}")
    yield element("path", d=f"M{end - 4:g} {back:g}L{end:g} {to:g}L{end + 4:g} {back:g}z", class_="tip")


def _edge_label(edge: DiagramEdge, places: Mapping[str, Place]) -> ElementTree.Element:
    (x, y), (to_x, to_y) = places[edge.source], places[edge.target]
    # Nearer to where the arrow begins: many lead to one box.
    middle = x * 0.7 + to_x * 0.3 + _WIDTH / 2
    down = y + _HEIGHT + (max(to_y - y - _HEIGHT, 0) * 0.35 or _BETWEEN / 2)
    return element("text", edge.label, x=f"{middle:g}", y=f"{down:g}", text_anchor="middle", class_="edge")


def _box(node: DiagramNode, x: float, y: float) -> ElementTree.Element:
    lines = textwrap.wrap(printable_cell(node.label), _CHARACTERS, max_lines=_LINES, placeholder="…")
    texts = [
        element("text", line, x=x + 10, y=y + _HEIGHT / 2 + 4 + (place - (len(lines) - 1) / 2) * _LINE)
        for place, line in enumerate(lines)
    ]
    frame = element("rect", x=x, y=y, width=_WIDTH, height=_HEIGHT - 2, rx=0 if node.kind == "activity" else 8)
    return element("g", element("title", node.label), frame, *texts, class_=node.kind)
