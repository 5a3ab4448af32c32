"""Characters of long texts as arrays, which numpy reads many times as fast as the standard library.

Normalising sorts the marks of a run by their class, by insertion: 20,000 marks in an unlucky order take 0.3 s, and a million
would take minutes. UAX 15 names texts without runs of more than 30 stream-safe, and how to make them so.
"""

from __future__ import annotations

import functools
import re
import unicodedata

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


_LONGEST = 30
_JOINER = "\u034f"
_AFTER_MARKS = 0x20000
# Every mark is neither of a word nor a blank. This is fast for short texts.
_MAY_BE_RUN = re.compile(rf"[^\w\s]{{{_LONGEST + 1},}}+")


def break_mark_runs(text: str) -> str:
    """Return a text with a joiner, which is not drawn, after each 30 combining marks in a row."""
    if len(text) < LONG:
        return _MAY_BE_RUN.sub(lambda match: _break_short(match[0]), text)
    points = read_code_points(text)
    is_mark = _list_marks()[np.minimum(points, _AFTER_MARKS)]
    others = np.concatenate([[-1], np.flatnonzero(~is_mark), [len(points)]])
    runs = np.flatnonzero(np.diff(others) > _LONGEST + 1)
    if not len(runs):
        return text
    breaks = [np.arange(others[run] + 1 + _LONGEST, others[run + 1], _LONGEST) for run in runs]
    return join_code_points(np.insert(points, np.concatenate(breaks), ord(_JOINER)))


@functools.cache
def _list_marks() -> Mask:
    """Return for each code point whether it is a combining mark, up to the first plane that has none."""
    return np.array([unicodedata.combining(chr(point)) > 0 for point in range(_AFTER_MARKS + 1)])


def _break_short(run: str) -> str:
    characters, marks = [], 0
    for character in run:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > _LONGEST:
            characters.append(_JOINER)
            marks = 1
        characters.append(character)
    return "".join(characters)
