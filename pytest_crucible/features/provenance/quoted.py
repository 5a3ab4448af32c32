"""Finds the parts of a Markdown text that quote: code blocks, code in a line, and quoted lines.

As CommonMark 0.31 has them (sections 4.5, 6.1 and 5.1), but code within a line ends with the line, so that a stray backtick hides
no more than that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import lru_cache

from pytest_crucible.quick_dataclass import dataclass

_BLOCK = re.compile(r"\n {0,3}(?:(?P<fence>`{3,}+(?=[^`\n]*+(?:\n|\Z))|~{3,}+)|>)")
_BACKTICKS = re.compile(r"`++")


@dataclass(frozen=True, slots=True)
class Spans:
    """Places in a text, in their order and apart."""

    starts: Sequence[int] = field(default=())
    ends: Sequence[int] = field(default=())

    def has(self, place: int) -> bool:
        """Return whether a place is within one of them."""
        before = bisect_right(self.starts, place)
        return before > 0 and place < self.ends[before - 1]

    def meets(self, start: int, end: int) -> bool:
        """Return whether a part of the text overlaps one of them."""
        before = bisect_right(self.starts, end - 1)
        return before > 0 and start < self.ends[before - 1]


def quoted_spans(text: str) -> Spans:
    """Return the parts of a text that quote.

    >>> spans = quoted_spans("Write `<event>` here.\\n> <event>\\n<event>")
    >>> [spans.has(place) for place in (7, 24, 32)]
    [True, True, False]
    """
    # A line end before the text: each line begins after one.
    blocks = [(start - 1, end - 1) for start, end in _blocks(f"\n{text}")]
    inline = _code_in_lines(text, Spans(*_columns(blocks))) if "`" in text else []
    return Spans(*_columns(sorted((*blocks, *inline))))


def _columns(spans: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [start for start, _ in spans], [end for _, end in spans]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield code blocks, to the end of the text where they are not closed, and quoted lines."""
    place = 0
    while match := _BLOCK.search(text, place):
        fence = match["fence"]
        end = _closing(fence) if fence else _LINE_END
        closing = end.search(text, match.end())
        place = len(text) if closing is None else closing.end()
        yield match.start(), place


_LINE_END = re.compile(r"(?=\n)")


@lru_cache(maxsize=10)
def _closing(fence: str) -> re.Pattern[str]:
    """Return the pattern of a line that closes a block of code."""
    return re.compile(rf"\n {{0,3}}{re.escape(fence)}{fence[0]}*+[ \t]*+(?=\n|\Z)")


def _code_in_lines(text: str, blocks: Spans) -> Iterator[tuple[int, int]]:
    """Yield code between two equal runs of backticks in one line, outside of blocks."""
    runs = [match.span() for match in _BACKTICKS.finditer(text) if not blocks.has(match.start())]
    closing = _next_equal_runs(text, runs)
    number = 0
    while number < len(runs):
        other = closing[number]
        if other is not None:
            yield runs[number][0], runs[other][1]
        number = number + 1 if other is None else other + 1


def _next_equal_runs(text: str, runs: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return for each run of backticks the number of the next one in its line that is as long."""
    numbers: list[int | None] = [None] * len(runs)
    later: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        start, end = runs[number]
        if number + 1 < len(runs) and text.find("\n", end, runs[number + 1][0]) >= 0:
            later.clear()
        numbers[number] = later.get(end - start)
        later[end - start] = number
    return numbers
