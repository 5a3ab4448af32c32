"""Read a JSON array of objects; errors name the line on which the object begins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_crucible.datasets.jsonl import DECODER, text_lines
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.records.nesting import TooDeep, parse
from pytest_crucible.records.type_names import describe_json_type

_BLANK = re.compile(r"[ \t\n\r]*")


def read_json(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) for each element. Raises DatasetError."""
    text = "".join(line for _, line in text_lines(path))
    if text.strip():
        yield from _Array(path, text).elements()


class _Array:
    """A JSON array that is read from left to right, one element at a time."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._at = 0
        self._counted = 0
        self._line = 1

    def elements(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self._expect("[", "is not a JSON array")
        closed = self._take("]")
        while not closed:
            line = self._line_here()
            try:
                element, self._at = parse(lambda text: DECODER.raw_decode(text, self._at), self._text)
            except TooDeep as error:
                raise DatasetError(f"line {line} of {self._path} {error}: flatten its values") from None
            except ValueError as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else error
                raise DatasetError(f"line {line} of {self._path} is not JSON ({reason})") from error
            if not isinstance(element, dict):
                raise DatasetError(f"line {line} of {self._path} has {describe_json_type(element)}: write objects")
            yield line, element
            closed = self._take("]")
            if not closed:
                self._expect(",", "lacks a comma or the closing bracket")
        if self._at < len(self._text):
            raise DatasetError(
                f"line {self._line_here()} of {self._path} has text after the array: write one array per file"
            )

    def _expect(self, character: str, otherwise: str) -> None:
        if not self._take(character):
            raise DatasetError(f"line {self._line_here()} of {self._path} {otherwise}: write [{{...}}, {{...}}]")

    def _take(self, character: str) -> bool:
        """Step over the character and the blanks around it; return whether it was there."""
        at = self._skip_blanks(self._at)
        if present := self._text.startswith(character, at):
            at = self._skip_blanks(at + 1)
        self._at = at
        return present

    def _skip_blanks(self, at: int) -> int:
        blank = _BLANK.match(self._text, at)
        return blank.end() if blank else at

    def _line_here(self) -> int:
        # Only the part since the last call is counted, so that the whole text is counted once.
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line
