"""A text to attack: its words and letters, without the spans that no attack may touch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

PROTECTED = re.compile(
    r"""
      ```.*?```                        # code
    | `[^`\n]+`
    | \b(?:https?://|www\.)\S+         # addresses
    | \S+@\S+\.\w+
    | \{\{[^{}\n]*\}\} | \{[^{}\n]*\}  # placeholders
    | <[^<>\n]{1,80}>
    | [$%]\w+
    | \S*\d\S*                         # numbers, with the unit or sign beside them
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
SHORTEST_ANSWER = 2
"""Characters. A shorter expected text, such as a letter of a choice, occurs anywhere in a question."""


@dataclass(frozen=True)
class Source:
    """A text, and what an attack has to know of its sample."""

    text: str
    protect: tuple[str, ...] = ()
    """Regular expressions of further spans that stay as they are."""
    expected: Any = None
    """The expected answer, whose occurrences in the text stay as they are."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What frames may name besides the text: `code` and `secret`."""
    sample: Any = None
    """The sample itself, for functions of users."""

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """The protected spans, in order. They may overlap."""
        spans = [match.span() for match in PROTECTED.finditer(self.text)]
        for pattern in self.protect:
            spans += [match.span() for match in re.finditer(pattern, self.text)]
        for answer in _texts(self.expected):
            spans += [match.span() for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", self.text, re.I)]
        return sorted(span for span in spans if span[0] < span[1])

    @cached_property
    def _is_protected(self) -> bytearray:
        flags = bytearray(len(self.text))
        for start, end in self.spans:
            flags[start:end] = b"\1" * (end - start)
        return flags

    def is_free(self, start: int, end: int) -> bool:
        """Return whether no character from `start` to `end` is protected."""
        return 1 not in self._is_protected[start:end]

    @cached_property
    def words(self) -> list[tuple[int, int]]:
        """Start and end of each word that may be edited."""
        return [span for span in (match.span() for match in _WORD.finditer(self.text)) if self.is_free(*span)]

    @cached_property
    def letters(self) -> list[int]:
        """The positions of all letters of these words."""
        text = self.text
        return [at for start, end in self.words for at in range(start, end) if text[at].isalpha()]

    @cached_property
    def inner_letters(self) -> list[int]:
        """The positions of the letters after the first of each word of at least three."""
        text = self.text
        return [
            at for start, end in self.words if end - start > 2 for at in range(start + 1, end) if text[at].isalpha()
        ]

    @cached_property
    def lower_words(self) -> list[str]:
        """The words that may be edited, in lower case."""
        return [self.text[start:end].lower() for start, end in self.words]

    @cached_property
    def gaps(self) -> list[int]:
        """The positions of the single blanks between two words on one line."""
        ends = {end for _, end in self.words}
        return [start - 1 for start, _ in self.words if start and self.text[start - 1] == " " and start - 1 in ends]


def _texts(expected: Any) -> Iterator[str]:
    if isinstance(expected, str):
        if len(expected.strip()) >= SHORTEST_ANSWER:
            yield expected.strip()
    elif isinstance(expected, Mapping):
        yield from _all_texts(expected.values())
    elif isinstance(expected, list | tuple):
        yield from _all_texts(expected)


def _all_texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)


def keep_case(original: str, replacement: str) -> str:
    """Return the replacement in the case of the original: small, Capitalised or CAPITALS.

    >>> keep_case("The", "this"), keep_case("USA", "america"), keep_case("I", "we")
    ('This', 'AMERICA', 'We')
    """
    if len(original) > 1 and original.isupper():
        return replacement.upper()
    return replacement[:1].upper() + replacement[1:] if original[:1].isupper() else replacement
