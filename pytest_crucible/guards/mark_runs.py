"""Runs of combining marks, broken so that normalising a text takes time in proportion to its length.

Normalising sorts the marks of a run by their class, by insertion: 20,000 marks in an unlucky order take 0.3 s, and a million
would take minutes. UAX 15 names texts without runs of more than 30 stream-safe, and how to make them so.
"""

from __future__ import annotations

import functools
import re
import unicodedata

import numpy as np

from pytest_crucible.guards.characters import LONG, Mask, join_code_points, read_code_points

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
