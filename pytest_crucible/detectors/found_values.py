"""Values that a detector has found in a run, and finds again where it does not know them: disguised, or without their word.

`password: tr0ub4dor` is a finding; `Tr0UB4DOR`, or one with Cyrillic letters or zero-width characters in it, is none by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher

from pytest_crucible.records.detections import Span

SHORTEST, SHORTEST_NUMBER = 4, 6
"""Characters of the shortest values that are searched for; shorter ones occur anywhere."""
LONG = 8
"""Characters from which a value is found inside of words, and across blanks."""
FEW = 50
"""Values up to which each is searched for by itself, which takes less time than reading the text character by character."""
_PREFIX = 4
ALIKE = 0.7
"""Similarity from which words of a changed text are taken for a changed value: a typo in six letters has 0.83."""

_AROUND = ".,;:!?\"'()[]{}<>"
"""Punctuation around a word, which is not part of a value."""

Exchange = Callable[[Iterable[tuple[str, str]]], Iterable[tuple[str, str]]]
"""Passes new (type, value) pairs to the other processes of a run, and returns those that they have found."""


def keep_to_itself(new: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    """Exchange nothing: one process has all values."""
    return ()


class FoundValues:
    """The values found in a run. Callable from any thread."""

    def __init__(
        self,
        fold: Callable[[str], str],
        forms: Callable[[str], Iterable[str]] = lambda _: (),
        exchange: Exchange = keep_to_itself,
    ) -> None:
        """`fold` returns a character without disguise, empty for blanks and invisible ones; `forms` returns texts decoded."""
        self._table = _FoldTable(fold)
        self._forms, self._exchange = forms, exchange
        self._types: dict[str, str] = {}
        """By folded value."""
        self._by_prefix: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._types)

    def fold(self, text: str) -> str:
        """Return a text as it is compared: equal values have equal numbers and hashes."""
        return text.translate(self._table) or text

    def learn(self, text: str, spans: Iterable[Span]) -> None:
        """Remember the findings in a text."""
        new = [(span.type, value) for span in spans if (value := text[span.start : span.end].translate(self._table))]
        self._add(self._exchange([pair for pair in new if self._add([pair])]))

    def learn_changed(self, original: str, changed: str) -> None:
        """Remember what the findings in a text have become where the text was changed, as by a typo in a password."""
        values = {(original[span.start : span.end], span.type) for span in self.find(original)}
        before, words = set(original.split()), changed.split()
        for value, kind in values:
            size = len(value.split())
            for count in range(max(size - 1, 1), size + 2):
                windows = (words[at : at + count] for at in range(len(words) - count + 1))
                for window in (" ".join(window) for window in windows if not before.issuperset(window)):
                    # Words around a value that is found already are not another value.
                    if self._is_alike(value, window) and not self.find(window):
                        stripped = window.strip(_AROUND) or window
                        self.learn(stripped, [Span(kind, 0, len(stripped))])

    def find(self, text: str) -> list[Span]:
        """Return where a text has one of the values, or a disguise of it; the whole text where it has one encoded."""
        self._add(self._exchange(()))
        if not self._types or not text:
            return []
        spans = list(self._places(text))
        if not spans:
            encoded = next((kind for form in self._forms(text) for kind in self._long_values(form)), None)
            spans = [] if encoded is None else [Span(encoded, 0, len(text))]
        return spans

    def _is_alike(self, value: str, window: str) -> bool:
        old, new = self.fold(value), self.fold(window.strip(_AROUND))
        # Two lengths rule most windows out, in a hundredth of the time.
        if min(len(old), len(new)) < ALIKE * max(len(old), len(new)):
            return False
        match = SequenceMatcher(None, old, new, autojunk=False)
        return match.quick_ratio() >= ALIKE and match.ratio() >= ALIKE

    def _add(self, pairs: Iterable[tuple[str, str]]) -> bool:
        """Add values, and return whether one of them is new."""
        is_new = False
        for kind, value in pairs:
            shortest = SHORTEST_NUMBER if value.isdigit() else SHORTEST
            if value not in self._types and len(value) >= shortest:
                with self._lock:
                    self._types[value] = kind
                    self._by_prefix.setdefault(value[:_PREFIX], []).append(value)
                is_new = True
        return is_new

    def _places(self, text: str) -> Iterator[Span]:
        folded = text.translate(self._table)
        origins: list[int] = []
        for start, value in self._matches(folded):
            # The place in the text of each folded character: only a text with a match is read one by one.
            origins = origins or [place for place, sign in enumerate(text) for _ in self._table[ord(sign)]]
            first, last = origins[start], origins[start + len(value) - 1] + 1
            if self._is_whole(text, first, last, value):
                yield Span(self._types[value], first, last)

    def _matches(self, folded: str) -> Iterator[tuple[int, str]]:
        if len(self._types) <= FEW:
            for value in tuple(self._types):
                start = folded.find(value)
                while start >= 0:
                    yield start, value
                    start = folded.find(value, start + 1)
            return
        for start in range(len(folded) - _PREFIX + 1):
            for value in self._by_prefix.get(folded[start : start + _PREFIX], ()):
                if folded.startswith(value, start):
                    yield start, value

    def _long_values(self, form: str) -> Iterator[str]:
        folded = form.translate(self._table)
        return (self._types[value] for _, value in self._matches(folded) if len(value) >= LONG)

    def _is_whole(self, text: str, first: int, last: int, value: str) -> bool:
        """Return whether a match is not a part of another word or number. Of long values a part is enough."""
        joined = str.isdigit if value.isdigit() else str.isalnum
        if len(value) >= LONG and not value.isdigit():
            return True
        has_blank = len(value) < LONG and any(map(str.isspace, text[first:last]))
        return not has_blank and not joined(self._next(text, first - 1, -1)) and not joined(self._next(text, last, 1))

    def _next(self, text: str, place: int, step: int) -> str:
        """Return the next visible character from a place on; a blank at the end of the text."""
        while 0 <= place < len(text):
            sign = text[place]
            if sign.isspace() or self._table[ord(sign)]:
                return sign
            place += step
        return " "


class _FoldTable(dict[int, str]):
    """The undisguised form of each character, as `str.translate` takes it; computed when first asked for."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        super().__init__()
        self._fold = fold

    def __missing__(self, code: int) -> str:
        folded = self[code] = self._fold(chr(code))
        return folded
