"""How a number looks, once and for all: estimate, interval, n; never more digits than the interval earns."""

from __future__ import annotations

import dataclasses
import math

from pytest_crucible.records import Interval


def number(value: float | None, interval: Interval | None = None, *, sign: bool = False) -> str:
    """A value with as many decimals as its interval has precision for (three where there is none).

    >>> number(0.56254738, Interval(low=0.5356, high=0.5891, level=0.95, method="wilson")), number(0.5), number(7)
    ('0.563', '0.500', '7')
    """
    if value is None:
        return "unknown"
    if interval is None and isinstance(value, int):  # a number of things, not an estimate
        return f"{value:{'+' if sign else ''},}"
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    if abs(value) >= 1e15 or (interval is None and 0 < abs(value) < 1e-6):
        return f"{value:{'+' if sign else ''}.3g}"
    decimals = _decimals(interval, value)
    shown = round(value, decimals) + 0.0  # no minus before a zero
    return f"{shown:{'+' if sign else ''},.{decimals}f}"


def with_interval(value: float | None, interval: Interval | None, *, sign: bool = False) -> str:
    """`0.563 [0.536, 0.589]`, or the value and the words `no interval`.

    >>> with_interval(1.5984, Interval(low=1.5832, high=math.inf, level=0.95, method="order statistics"))
    '1.598 [1.583, inf]'
    """
    if value is None or interval is None:
        shown = number(value, sign=sign)
        return shown if value is None else f"{shown} [no interval]"
    precision = _closed(value, interval)
    shown = number(value, precision, sign=sign)
    ends = ", ".join(number(end, precision, sign=sign) for end in (interval.low, interval.high))
    return f"{shown} [{ends}]"


def p_value(value: float | None) -> str:
    """Three decimals, and an order of magnitude below a thousandth.

    >>> p_value(0.00269), p_value(3e-24), p_value(None)
    ('0.003', '<1e-15', '-')
    """
    if value is None:
        return "-"
    if value < 1e-15:
        return "<1e-15"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def p_equals(value: float | None) -> str:
    """`p = 0.003`, and `p <1e-15`.

    >>> p_equals(0.00269), p_equals(3e-24), p_equals(None)
    ('p = 0.003', 'p <1e-15', 'no p')
    """
    if value is None:
        return "no p"
    shown = p_value(value)
    return f"p {shown}" if shown.startswith("<") else f"p = {shown}"


def noted(line: str, note: str) -> str:
    """The line, with what is to be said about it.

    >>> noted("0.5 [no interval]", "1 value"), noted("0.5 [0.3, 0.7]", "")
    ('0.5 [no interval]: 1 value', '0.5 [0.3, 0.7]')
    """
    return f"{line}: {note}" if note else line


def counted(n: float, noun: str) -> str:
    """A number of things, with its noun in the singular or plural.

    >>> counted(1, "pair"), counted(4, "cluster"), counted(2.5, "value")
    ('1 pair', '4 clusters', '2.5 values')
    """
    return f"{n:,.12g} {noun}{'s' * (n != 1)}"


def points(value: float) -> str:
    """A share as percentage points: 0.062 is `6.2 points`.

    >>> points(0.0617)
    '6.2 points'
    """
    return f"{value * 100:.2g} points"


def ratio(value: float | None, interval: Interval | None) -> str:
    """A ratio, or an end of its interval, with two digits of the lower end at least: to round it could hide that it is below 1.

    >>> ratio(2.5, Interval(low=0.717, high=10.92, level=0.95, method="exact"))
    '2.50'
    """
    low = 0.0 if interval is None else interval.low
    if value is None or not math.isfinite(value) or not 0 < low < math.inf:
        return number(value, interval)
    decimals = max(_decimals(interval, value), 1 - math.floor(math.log10(low)))
    return f"{value:,.{min(6, decimals)}f}"


def ratio_with_interval(value: float | None, interval: Interval | None) -> str:
    """`2.50 [0.72, 10.92]`, or the value and the words `no interval`."""
    if value is None or interval is None:
        return with_interval(value, interval)
    return f"{ratio(value, interval)} [{ratio(interval.low, interval)}, {ratio(interval.high, interval)}]"


def _closed(value: float, interval: Interval) -> Interval:
    """As wide on its open side as on the other: what half of an interval earns its number."""
    known = [abs(value - end) for end in (interval.low, interval.high) if math.isfinite(end)]
    if len(known) != 1:
        return interval
    return dataclasses.replace(interval, low=value - known[0], high=value + known[0])


def _decimals(interval: Interval | None, value: float) -> int:
    """Two digits of the interval's width; three decimals at least where its half is smaller than 1, and six at most."""
    width = 0.0 if interval is None else interval.high - interval.low
    known = width > 0 and math.isfinite(width)
    scale = width if known else abs(value)
    if not scale:
        return 3
    digits = 1 - math.floor(math.log10(scale))
    return min(6, max(0 if scale >= (2 if known else 1) else 3, digits))
