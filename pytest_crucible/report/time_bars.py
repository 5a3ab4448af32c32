"""A picture of time as SVG: bars on lanes below each other, over one scale of seconds."""

from __future__ import annotations

from xml.etree import ElementTree

from pytest_crucible.records.views import Span, TimeBars
from pytest_crucible.report.pictures import Axis, axis_from_zero, element, label, svg_text
from pytest_crucible.stats.number_format import seconds

# Pixels: of the whole, of the names of lanes, of one lane, and of the narrowest bar.
_WIDTH, _NAMES, _LANE, _LEAST = 860, 200, 24, 3
_MOST_LANES = 60


def draw_time_bars(bars: TimeBars) -> str:
    """Return an SVG element of the first lanes; all of them are in tables."""
    names = list(dict.fromkeys(span.lane for span in bars.spans))[:_MOST_LANES]
    spans = [span for span in bars.spans if span.lane in names]
    scale = axis_from_zero([span.end for span in spans])
    height = len(names) * _LANE
    inside = [element("title", bars.title)]
    for tick in scale.ticks:
        x = _across(scale, tick)
        inside.append(element("line", x1=x, x2=x, y1=0, y2=height, class_="grid"))
        inside.append(element("text", f"{label(tick)} s", x=x, y=height + 14, text_anchor="middle", class_="tick"))
    inside += [element("text", name, x=0, y=row * _LANE + 16, class_="name") for row, name in enumerate(names)]
    inside += [_bar(span, names.index(span.lane), scale) for span in spans]
    size = {"width": _WIDTH, "height": height + 22, "viewBox": f"0 0 {_WIDTH} {height + 22}"}
    return svg_text(element("svg", *inside, class_="time-bars", role="img", **size))


def _bar(span: Span, row: int, scale: Axis) -> ElementTree.Element:
    start, end = _across(scale, span.start), _across(scale, span.end)
    title = element("title", f"{span.label}, {seconds(max(span.end - span.start, 0.0))}")
    place = {"x": f"{start:.1f}", "y": row * _LANE + 4, "width": f"{max(end - start, _LEAST):.1f}", "height": _LANE - 8}
    return element("rect", title, rx=2, **place)


def _across(scale: Axis, at: float) -> float:
    return round(_NAMES + scale.share(at) * (_WIDTH - _NAMES - 30), 1)
