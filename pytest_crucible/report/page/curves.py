"""Curves between 0 and 1 on both axes, such as ROC curves, as pictures."""

from __future__ import annotations

from xml.etree import ElementTree

from pytest_crucible.records.views import Curves
from pytest_crucible.report.page.svg import element, label, svg_text

# Pixels of the square, and of the space for its scales.
SIDE, LEFT, BELOW, ABOVE = 260, 48, 40, 8
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# The first arm is a solid line, others are dashed: colours alone would not tell them apart in print.
_DASHES = ("", "6 3", "2 2", "8 3 2 3")


def draw_curves(curves: Curves) -> str:
    """Return the picture as text for a page."""
    parts = [
        element("rect", x=LEFT, y=ABOVE, width=SIDE, height=SIDE, fill="none", stroke="currentColor", stroke_opacity=0.3),
        *(part for tick in _TICKS for part in _scale(tick)),
        element("text", curves.across, x=LEFT + SIDE / 2, y=ABOVE + SIDE + 34, text_anchor="middle", class_="tick"),
        element(
            "text", curves.up, x=12, y=ABOVE + SIDE / 2, text_anchor="middle", class_="tick",
            transform=f"rotate(-90 12 {ABOVE + SIDE / 2:g})",
        ),
    ]  # fmt: skip
    for number, curve in enumerate(curves.curves):
        dash = _DASHES[number % len(_DASHES)]
        points = " ".join(f"{_across(x):.1f},{_up(y):.1f}" for x, y in curve.points)
        line = {"fill": "none", "stroke": "currentColor", "stroke_width": 1.5, "stroke_dasharray": dash or "none"}
        y = ABOVE + 14 + 18 * number
        parts += [
            element("polyline", element("title", curve.label), points=points, **line),
            element("line", x1=LEFT + SIDE + 12, y1=y - 4, x2=LEFT + SIDE + 40, y2=y - 4, **line),
            element("text", curve.label, x=LEFT + SIDE + 46, y=y, class_="tick"),
        ]
    picture = element(
        "svg", *parts, width=LEFT + SIDE + 220, height=ABOVE + SIDE + BELOW, role="img", aria_label=curves.title
    )
    return svg_text(picture)


def _scale(tick: float) -> list[ElementTree.Element]:
    return [
        element("text", label(tick), x=_across(tick), y=ABOVE + SIDE + 16, text_anchor="middle", class_="tick"),
        element("text", label(tick), x=LEFT - 6, y=_up(tick) + 4, text_anchor="end", class_="tick"),
    ]


def _across(share: float) -> float:
    return LEFT + SIDE * share


def _up(share: float) -> float:
    return ABOVE + SIDE * (1 - share)
