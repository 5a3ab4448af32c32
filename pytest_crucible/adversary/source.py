"""A text to attack: its words and letters, without the spans that no attack may touch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

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


class _Places(NamedTuple):
    """The places of a text that attacks may edit."""

    spans: list[tuple[int, int]]
    is_protected: bytearray
    words: list[tuple[int, int]]
    lower_words: list[str]
    letters: list[int]
    inner_letters: list[int]
    gaps: list[int]


# All attacks of a sample look at the same text, one after the other.
@lru_cache(maxsize=64)
def _find_places(text: str, protect: tuple[str, ...], answers: tuple[str, ...]) -> _Places:
    spans = [match.span() for match in PROTECTED.finditer(text)]
    for pattern in protect:
        spans += [match.span() for match in re.finditer(pattern, text)]
    for answer in answers:
        spans += [match.span() for match in re.finditer(rf"(?<!\w){re.escape(answer)}(?!\w)", text, re.I)]
    spans = sorted(span for span in spans if span[0] < span[1])
    flags = bytearray(len(text))
    for start, end in spans:
        flags[start:end] = b"\1" * (end - start)
    words = [span for span in (match.span() for match in _WORD.finditer(text)) if 1 not in flags[span[0] : span[1]]]
    ends = {end for _, end in words}
    return _Places(
        spans=spans,
        is_protected=flags,
        words=words,
        lower_words=[text[start:end].lower() for start, end in words],
        letters=[at for start, end in words for at in range(start, end) if text[at].isalpha()],
        inner_letters=[
            at for start, end in words if end - start > 2 for at in range(start + 1, end) if text[at].isalpha()
        ],
        gaps=[start - 1 for start, _ in words if start and text[start - 1] == " " and start - 1 in ends],
    )


@dataclass(frozen=True)
class Source:
    """A text, with the facts about its sample that an attack needs."""

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
    def _places(self) -> _Places:
        return _find_places(self.text, self.protect, tuple(_texts(self.expected)))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The protected spans, in order. They may overlap."""
        return self._places.spans

    def is_free(self, start: int, end: int) -> bool:
        """Return whether no character from `start` to `end` is protected."""
        return 1 not in self._places.is_protected[start:end]

    @property
    def words(self) -> list[tuple[int, int]]:
        """Start and end of each word that may be edited."""
        return self._places.words

    @property
    def lower_words(self) -> list[str]:
        """The words that may be edited, in lower case."""
        return self._places.lower_words

    @property
    def letters(self) -> list[int]:
        """The positions of all letters of these words."""
        return self._places.letters

    @property
    def inner_letters(self) -> list[int]:
        """The positions of the letters after the first of each word of at least three."""
        return self._places.inner_letters

    @property
    def gaps(self) -> list[int]:
        """The positions of the single blanks between two words on one line."""
        return self._places.gaps


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
