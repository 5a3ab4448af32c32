"""Parses durations as people and servers write them."""

from __future__ import annotations

import re

_UNITS_S = {
    **dict.fromkeys(("ms", "millisecond"), 0.001),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
    **dict.fromkeys(("d", "day"), 86400.0),
}
_PART = re.compile(
    rf"\s*(\d+(?:\.\d*)?|\.\d+)\s*({'|'.join(sorted(_UNITS_S, key=len, reverse=True))})s?(?![a-z])\s*", re.I
)
_PLAIN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*")


def seconds_of(text: str) -> float | None:
    """Return a duration in seconds, the unit of a bare number; None for other texts.

    >>> seconds_of("30 min"), seconds_of("1h30m"), seconds_of("2m59.56s"), seconds_of("17ms"), seconds_of("90")
    (1800.0, 5400.0, 179.56, 0.017, 90.0)
    >>> seconds_of("soon"), seconds_of("")
    (None, None)
    """
    if plain := _PLAIN.fullmatch(text):
        return float(plain[1])
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        total += float(part[1]) * _UNITS_S[part[2].lower()]
        at = part.end()
    return total if text else None
