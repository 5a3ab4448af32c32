"""Characters of long texts as arrays, which numpy reads many times as fast as the standard library."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

LONG = 20_000
"""Characters from which arrays are worth their start."""

Codes = NDArray[np.uint8]
CodePoints = NDArray[np.uint32]
Mask = NDArray[np.bool_]
_FEW_RANGES = 4


def read_codes(text: str) -> Codes:
    """Return the codes of the characters; 0 for one that is not of Latin-1."""
    if text.isascii():
        return np.frombuffer(text.encode(), dtype=np.uint8)
    codes = read_code_points(text)
    return codes.astype(np.uint8) * (codes < 256)


def read_code_points(text: str) -> CodePoints:
    """Return the code points of the characters; lone surrogates stay."""
    # Encoding would call an error handler for each surrogate, which takes a microsecond.
    return np.array([text]).view(np.uint32)[: len(text)]


def join_code_points(points: CodePoints) -> str:
    """Return the text with these code points."""
    # What is read from an array loses the zeros at its end, therefore something else is there.
    ended = np.append(points, np.uint32(ord(".")))
    text: str = ended.view(f"<U{len(ended)}")[0]
    return str(text[:-1])


def look_up(codes: Codes, table: bytes) -> Mask:
    """Return for each code whether the table of 256 has it."""
    ranges = _list_ranges(table)
    if len(ranges) > _FEW_RANGES:
        return np.frombuffer(codes.tobytes().translate(table), dtype=bool)
    # Comparing takes a tenth of the time of a table for each range: codes below its first one wrap around.
    mask = np.zeros(codes.shape, dtype=bool)
    for first, span in ranges:
        mask |= (codes - first) <= span
    return mask


@functools.cache
def _list_ranges(table: bytes) -> list[tuple[np.uint8, np.uint8]]:
    """Return the codes in a table as ranges: the first of each, and how far the last is from it."""
    codes = [code for code in range(256) if table[code]]
    firsts = [code for code in codes if code - 1 not in codes]
    lasts = [code for code in codes if code + 1 not in codes]
    return [(np.uint8(first), np.uint8(last - first)) for first, last in zip(firsts, lasts, strict=True)]


def list_signs(characters: str) -> bytes:
    """Return the table of these characters for `look_up`; all are of Latin-1."""
    return bytes(chr(code) in characters for code in range(256))
