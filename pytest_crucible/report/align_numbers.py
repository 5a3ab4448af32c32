"""Aligns estimates and their intervals in a column on the decimal point."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ESTIMATE = re.compile(r"(\S+) \[(?:([^\s,]\S*), (\S+)|(.+))\]")
# Blanks as wide as a digit and as a decimal point: ordinary blanks are narrower in proportional fonts.
DIGIT, POINT = "\u2007", "\u2008"


def align_estimates(cells: Sequence[str]) -> list[tuple[str, str]]:
    """Return each cell as its number and its interval, padded so that decimal points are aligned.

    >>> align_estimates(["0.5 [0.25, 0.75]", "-10.25 [no interval]"])[0][0] == DIGIT * 2 + "0.5" + DIGIT
    True
    """
    matches = [_ESTIMATE.fullmatch(cell) for cell in cells]
    values = _columns([match[1] if match else "" for match in matches])
    lows = _columns([(match[2] or "") if match else "" for match in matches])
    highs = _columns([(match[3] or "") if match else "" for match in matches])
    return [
        (typeset(cell), "") if match is None
        else (f"{before}{value}{after}", f"[{match[4]}]") if match[4]
        else (f"{before}{value}{after}", f"[{low[0]}{low[1]},{low[2]} {high[0]}{high[1]}]{high[2]}")
        for cell, match, (before, value, after), low, high in zip(cells, matches, values, lows, highs, strict=True)
    ]  # fmt: skip


def typeset(text: str) -> str:
    """Return the text with a leading hyphen as a minus sign, which is as wide as a plus."""
    return text.replace("-", "\u2212") if re.match(r"-[\d.i]", text) else text


def _columns(texts: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return each number with the blanks before and behind it."""
    parts = [text.partition(".") for text in texts]
    before = max((len(whole) for whole, _, _ in parts), default=0)
    after = max((len(decimals) for _, _, decimals in parts), default=0)
    return [
        (
            DIGIT * (before - len(whole)),
            typeset(text),
            ("" if point or not after else POINT) + DIGIT * (after - len(decimals)),
        )
        for text, (whole, point, decimals) in zip(texts, parts, strict=True)
    ]
