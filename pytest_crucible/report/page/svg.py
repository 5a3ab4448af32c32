"""SVG elements in the page's colours, and axes with round ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from pytest_crucible.report.printable import printable


def element(tag: str, *inside: ElementTree.Element | str, **attributes: object) -> ElementTree.Element:
    """Return an element; `class_` is written `class`, `stroke_width` is written `stroke-width`. Texts are escaped when drawn."""
    named = {name.rstrip("_").replace("_", "-"): str(value) for name, value in attributes.items()}
    node = ElementTree.Element(tag, named)
    for child in inside:
        if isinstance(child, str):
            # XML has no control characters, not even escaped ones.
            node.text = printable(child, 200)
        else:
            node.append(child)
    return node


def svg_text(root: ElementTree.Element) -> str:
    """Return the picture as text for a page."""
    return ElementTree.tostring(root, encoding="unicode")


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale with round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the low end or below, 1 at the high end or above."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def axis(values: Sequence[float], *, most: int = 6) -> Axis:
    """Return a scale that covers all finite values, with about `most` round ticks.

    >>> axis([0.012, 0.93]).ticks, axis([-0.19, 0.02]).ticks
    ((0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (-0.2, -0.15, -0.1, -0.05, 0.0, 0.05))
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(finite), max(finite)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    step = _round_step((high - low) / (most - 1))
    # The small number keeps an end that is a tick already from getting one tick more by rounding.
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(k * step, 12) for k in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def label(tick: float) -> str:
    """Return a tick as it is written at its axis."""
    return f"{tick:g}".replace("-", "\u2212")


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, the next one up.

    >>> _round_step(0.13), _round_step(3)
    (0.2, 5.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(round(m * power, 12) for m in (1.0, 2.0, 5.0, 10.0) if m * power >= least * (1 - 1e-9))
