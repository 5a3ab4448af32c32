"""Reading one JSON array of objects so that every complaint names the line that the object begins on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import text_lines
from pytest_crucible.errors import DatasetError

_BLANK = re.compile(r"[ \t\n\r]*")


def read_json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each element. Raises DatasetError."""
    text = "".join(line for _, line in text_lines(path))
    if text.strip():
        yield from _Array(path, text).elements()


class _Array:
    """A text that is read from left to right, an element at a time."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._at = 0
        self._counted = 0
        self._line = 1

    def elements(self) -> Iterator[tuple[int, dict[str, Any]]]:
        decoder = json.JSONDecoder()
        self._expect("[", "is no JSON array")
        closed = self._take("]")
        while not closed:
            line = self._line_here()
            try:
                element, self._at = decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                said = error.msg if isinstance(error, json.JSONDecodeError) else error
                raise DatasetError(f"line {line} of {self._path} is not JSON ({said})") from error
            if not isinstance(element, dict):
                raise DatasetError(f"line {line} of {self._path} has a JSON {type(element).__name__}: write objects")
            yield line, element
            closed = self._take("]")
            if not closed:
                self._expect(",", "lacks a comma or the closing bracket")
        if self._at < len(self._text):
            raise DatasetError(
                f"line {self._line_here()} of {self._path} goes on after the array: write one array a file"
            )

    def _expect(self, character: str, otherwise: str) -> None:
        if not self._take(character):
            raise DatasetError(f"line {self._line_here()} of {self._path} {otherwise}: write [{{...}}, {{...}}]")

    def _take(self, character: str) -> bool:
        """Step over the character, and over what is blank before and after it."""
        at = self._skipped(self._at)
        if found := self._text.startswith(character, at):
            at = self._skipped(at + 1)
        self._at = at
        return found

    def _skipped(self, at: int) -> int:
        blank = _BLANK.match(self._text, at)
        return blank.end() if blank else at

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line
