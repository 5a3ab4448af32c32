"""Pictures of boxes and arrows, and of bars on lanes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.records.views import Diagram, DiagramEdge, DiagramNode, Span, TimeBars
from pytest_crucible.report.diagrams import draw_diagram, layers
from pytest_crucible.report.time_bars import draw_time_bars
from tests.hostile_texts import HOSTILE

KEYS = "abcdef"


@given(st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS)), max_size=12))
def test_each_key_has_one_layer_and_stands_below_what_points_to_it_unless_there_is_a_circle(edges):
    rows = list(layers(KEYS, edges))
    place = {key: row for row, keys in enumerate(rows) for key in keys}

    assert sorted(key for keys in rows for key in keys) == sorted(KEYS)
    for source, target in edges:
        assert place[source] < place[target] or place[target] == len(rows) - 1


def diagram(*labels: str, edges: tuple[tuple[str, str], ...] = ()) -> Diagram:
    return Diagram(
        title="claims",
        nodes=tuple(DiagramNode(key=str(number), label=label) for number, label in enumerate(labels)),
        edges=tuple(DiagramEdge(source=source, target=target, label="supports") for source, target in edges),
    )


def boxes(svg: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', svg)]


def test_an_arrow_leads_down_and_has_its_label():
    svg = draw_diagram(diagram("It helped.", "Tea helps.", edges=(("0", "1"),)))
    (_, above), (_, below) = boxes(svg)

    assert above < below
    assert ">supports</text>" in svg


def test_hundreds_of_boxes_are_as_wide_as_six():
    svg = draw_diagram(diagram(*(f"claim {number}" for number in range(300))))

    assert len({x for x, _ in boxes(svg)}) == 6
    assert len(set(boxes(svg))) == 300


def test_a_circle_is_drawn():
    svg = draw_diagram(diagram("one", "other", edges=(("0", "1"), ("1", "0"))))

    assert svg.count('class="tip"') == 2


def test_hostile_labels_are_text():
    texts = [text[:5_000] for text in HOSTILE.values()]
    pictures = [
        draw_diagram(diagram(*texts, edges=(("0", "1"),))),
        draw_time_bars(
            TimeBars(title="<b>", spans=tuple(Span(lane=text, label=text, start=0.0, end=1.0) for text in texts))
        ),
    ]

    for picture in pictures:
        assert {node.tag for node in ElementTree.fromstring(picture).iter()} <= {
            "svg", "g", "rect", "path", "text", "title", "line"
        }  # fmt: skip


def test_bars_lie_on_the_lanes_of_their_names_and_are_as_long_as_they_took():
    spans = (
        Span(lane="wait", label="waited", start=0.0, end=1.0),
        Span(lane="request", label="request 1", start=1.0, end=3.0),
        Span(lane="wait", label="again", start=3.0, end=3.0),
    )
    svg = draw_time_bars(TimeBars(title="Time line", spans=spans))
    rects = [
        tuple(map(float, rect)) for rect in re.findall(r'<rect rx="2" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', svg)
    ]
    (first, lane, width), (second, other, double), (_, again, least) = rects

    assert (lane, other) == (again, lane + 24)
    assert double == 2 * width
    assert second == first + width
    assert least == 3
    assert "request 1, 2.00 s" in svg


def test_the_scale_of_bars_without_length_begins_at_zero():
    svg = draw_time_bars(TimeBars(title="Time line", spans=(Span(lane="reply", label="cached", start=0.0, end=0.0),)))

    assert re.findall(r'class="tick">([^<]*)<', svg)[0] == "0 s"


def test_a_picture_of_no_bar_is_empty():
    assert "<rect" not in draw_time_bars(TimeBars(title="Time line", spans=()))
