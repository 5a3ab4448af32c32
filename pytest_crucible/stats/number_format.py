"""Number formats: estimate, interval and n, with no more digits than the interval's precision."""

from __future__ import annotations

import dataclasses
import math

from pytest_crucible.stats.interval import Interval


def number(value: float | None, interval: Interval | None = None, *, sign: bool = False) -> str:
    """Return a value with as many decimals as its interval has precision for (three without an interval).

    >>> number(0.56254738, Interval(low=0.5356, high=0.5891, level=0.95, method="wilson")), number(0.5), number(7)
    ('0.563', '0.500', '7')
    """
    if value is None:
        return "unknown"
    # A number of things, not an estimate.
    if interval is None and isinstance(value, int):
        return f"{value:{'+' if sign else ''},}"
    if math.isinf(value):
        return "-inf" if value < 0 else "inf"
    # Floats have 15 to 16 digits: further ones would be invented, and tiny numbers would be shown as 0.000.
    if abs(value) >= 1e15 or (interval is None and 0 < abs(value) < 1e-6):
        return f"{value:{'+' if sign else ''}.3g}"
    decimals = _decimals(interval, value)
    if sign and not round(value, decimals) and abs(value) >= 5e-7:
        # A difference that is not 0 shows on which side of it it lies.
        decimals = min(6, 1 - math.floor(math.log10(abs(value))))
    # No minus before a zero.
    rounded = round(value, decimals) + 0.0
    return f"{rounded:{'+' if sign else ''},.{decimals}f}"


def with_interval(value: float | None, interval: Interval | None, *, sign: bool = False) -> str:
    """Return `0.563 [0.536, 0.589]`, or the value and the words `no interval`."""
    if value is None or interval is None:
        text = number(value, sign=sign)
        return text if value is None else f"{text} [no interval]"
    precision = _close_interval(value, interval)
    text = number(value, precision, sign=sign)
    ends = ", ".join(number(end, precision, sign=sign) for end in (interval.low, interval.high))
    return f"{text} [{ends}]"


def p_value(value: float | None) -> str:
    """Return a p-value with three decimals; below 0.001, its order of magnitude.

    >>> p_value(0.00269), p_value(3e-24), p_value(None)
    ('0.003', '<1e-15', '-')
    """
    if value is None:
        return "-"
    # So far out the tails of the distributions are rounding errors.
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
    text = p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def with_note(line: str, note: str) -> str:
    """Return the line with a note.

    >>> with_note("0.5 [no interval]", "1 value"), with_note("0.5 [0.3, 0.7]", "")
    ('0.5 [no interval]: 1 value', '0.5 [0.3, 0.7]')
    """
    return f"{line}: {note}" if note else line


def quantity(n: float, noun: str) -> str:
    """Return a number of things, with its noun in the singular or plural.

    >>> quantity(1, "pair"), quantity(4, "cluster"), quantity(2.5, "value"), quantity(3, "reply")
    ('1 pair', '4 clusters', '2.5 values', '3 replies')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("ply") else f"{noun}s"
    return f"{n:,.12g} {noun if n == 1 else plural}"


def points(value: float) -> str:
    """Return a share as percentage points: 0.062 is `6.2 points`.

    >>> points(0.0617)
    '6.2 points'
    """
    return f"{value * 100:.2g} points"


def ratio(value: float | None, interval: Interval | None) -> str:
    """Return a ratio, or an end of its interval, with at least two digits of the lower end: rounding could hide that it is below 1.

    >>> ratio(2.5, Interval(low=0.717, high=10.92, level=0.95, method="exact"))
    '2.50'
    """
    low = 0.0 if interval is None else interval.low
    if value is None or not math.isfinite(value) or not 0 < low < math.inf:
        return number(value, interval)
    decimals = max(_decimals(interval, value), 1 - math.floor(math.log10(low)))
    return f"{value:,.{min(6, decimals)}f}"


def ratio_with_interval(value: float | None, interval: Interval | None) -> str:
    """Return `2.50 [0.72, 10.92]`, or the value and the words `no interval`."""
    if value is None or interval is None:
        return with_interval(value, interval)
    return f"{ratio(value, interval)} [{ratio(interval.low, interval)}, {ratio(interval.high, interval)}]"


def _close_interval(value: float, interval: Interval) -> Interval:
    """Return a one-sided interval made symmetric: its finite half gives the precision."""
    distances = [abs(value - end) for end in (interval.low, interval.high) if math.isfinite(end)]
    if len(distances) != 1:
        return interval
    return dataclasses.replace(interval, low=value - distances[0], high=value + distances[0])


def _decimals(interval: Interval | None, value: float) -> int:
    """Return decimals for two digits of the interval's width: at least three where its half is below 1, at most six."""
    width = 0.0 if interval is None else interval.high - interval.low
    has_width = width > 0 and math.isfinite(width)
    scale = width if has_width else abs(value)
    if not scale:
        return 3
    digits = 1 - math.floor(math.log10(scale))
    return min(6, max(0 if scale >= (2 if has_width else 1) else 3, digits))


def seconds(value: float) -> str:
    """Return a duration with three digits.

    >>> seconds(0.0431), seconds(1.1), seconds(99.96), seconds(0.000123), seconds(0)
    ('0.0431 s', '1.10 s', '100 s', '0.123 ms', '0 s')
    """
    if not value:
        return "0 s"
    return f"{three_digits(value)} s" if value >= 0.001 else f"{three_digits(value * 1e3)} ms"


def dollars(value: float) -> str:
    """Return an amount to the cent; an amount below ten cents with two digits.

    >>> dollars(12.3456), dollars(0.00123), dollars(0.0)
    ('$12.35', '$0.0012', '$0.00')
    """
    decimals = 2 if value >= 0.1 or value <= 0 else 1 - math.floor(math.log10(value))
    return f"${value:,.{decimals}f}"


def three_digits(value: float) -> str:
    """Return a number with three digits, or all digits of its whole part."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def ordinal(number: int) -> str:
    """Return a number as a place.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 21, 112)]
    ['1st', '2nd', '3rd', '4th', '11th', '12th', '21st', '112th']
    """
    endings = {1: "st", 2: "nd", 3: "rd"}
    teen = 10 < number % 100 < 14
    return f"{number:,}{'th' if teen else endings.get(number % 10, 'th')}"
