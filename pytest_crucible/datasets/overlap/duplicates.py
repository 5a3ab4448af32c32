"""Finds rows that repeat an earlier row: equal after normalising, or different in at most 5 % of the words.

The difference of two texts is their edit distance in words (words inserted, deleted or replaced), as a share of the longer text.
Every field of a row (prompt, completion, ...) has to be that near: two prompts may differ in one number, and then their answers do.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from pytest_crucible.metrics.text import normalise, normalised_words

NEAR = 20
"""One word in so many may differ: 5 %."""

# A text of 19 words is near one of 20; below, one word is more than 5 % of whatever it is compared with.
_SHORTEST = NEAR - 1

Words = list[str]


class Duplicate(NamedTuple):
    """The earlier row that a row repeats."""

    of: int
    is_equal: bool
    """Whether they are equal after normalising; otherwise they are near."""


def find_duplicates(rows: Sequence[tuple[str, ...]]) -> list[Duplicate | None]:
    """Return for each row the first earlier row that it repeats, itself not a duplicate; None for a row that appears first.

    >>> find_duplicates([("What is 2 + 2?", "4"), ("what is  2 + 2?", "4"), ("What is 2 + 3?", "5")])
    [None, Duplicate(of=0, is_equal=True), None]
    """
    # Gold answers and prompts occur in many rows: each text is split once.
    words = {text: normalised_words(text) for text in dict.fromkeys(itertools.chain.from_iterable(rows))}
    normal = {text: " ".join(of_text) for text, of_text in words.items()}
    duplicates: list[Duplicate | None] = []
    first: dict[tuple[str, ...], int] = {}
    for position, row in enumerate(rows):
        earlier = first.setdefault(tuple([normal[text] for text in row]), position)
        duplicates.append(None if earlier == position else Duplicate(earlier, True))
    long_rows = [position for position in first.values() if any(_may_differ(words[text]) for text in rows[position])]
    index = _NearIndex([tuple(words[text] for text in rows[position]) for position in long_rows])
    for number, position in enumerate(long_rows):
        near = index.find_or_add(number)
        if near is not None:
            duplicates[position] = Duplicate(long_rows[near], False)
    return [_first_of_all(duplicates, duplicate) for duplicate in duplicates]


def normalise_text(text: str) -> str:
    """Return the text as texts are compared: as the metric `exact_match` normalises it."""
    # Half of the time of a million rows; ASCII has no compatibility characters, and its case folding is lower case.
    return " ".join(text.lower().split()) if text.isascii() else normalise(text)


def is_near(words: Words, others: Words) -> bool:
    """Return whether two texts differ in at most 5 % of the words of the longer one.

    >>> is_near("a b c".split(), "a b d".split()), is_near(["the"] * 20, ["the"] * 19 + ["a"])
    (False, True)
    """
    return words == others or _differ_in_at_most(max(len(words), len(others)) // NEAR, words, others)


def _first_of_all(duplicates: list[Duplicate | None], duplicate: Duplicate | None) -> Duplicate | None:
    """Return the row that stays where the earlier row is itself a near duplicate."""
    earlier = None if duplicate is None else duplicates[duplicate.of]
    return duplicate if earlier is None else Duplicate(earlier.of, False)


def _may_differ(words: Words) -> bool:
    return len(words) >= _SHORTEST


class _NearIndex:
    """Rows by their rarest words: texts that differ in k words share one of the k + 1 rarest words of each.

    This is the prefix filter of set similarity joins (Chaudhuri et al. 2006; Bayardo et al. 2007): only rows with a rare word
    in common are compared.
    """

    def __init__(self, rows: Sequence[tuple[Words, ...]]) -> None:
        self._rows = rows
        self._ranks = [_rank_words([row[field] for row in rows]) for field in range(len(rows[0]) if rows else 0)]
        self._buckets: dict[tuple[str | None, ...], int] = {}
        self._places: dict[tuple[int, int, int], list[int]] = defaultdict(list)

    def find_or_add(self, number: int) -> int | None:
        """Return the first row added before that this one is near to; without one, add this row."""
        keys = self._keys(self._rows[number])
        # Any field finds all near rows, so the one with the rarest words is used.
        places = [[self._places[key] for key in of_field if key in self._places] for of_field in keys]
        rarest = min(places, key=lambda lists: sum(map(len, lists)))
        for candidate in sorted(set(itertools.chain.from_iterable(rarest))):
            if all(map(is_near, self._rows[number], self._rows[candidate])):
                return candidate
        for of_field in keys:
            for key in of_field:
                self._places[key].append(number)
        return None

    def _keys(self, row: tuple[Words, ...]) -> list[list[tuple[int, int, int]]]:
        """Return the keys of each field that may differ. Rows are compared only if their short texts are equal."""
        long = [len(words) >= _SHORTEST for words in row]
        short = tuple([None if is_long else " ".join(words) for words, is_long in zip(row, long, strict=True)])
        bucket = self._buckets.setdefault(short, len(self._buckets))
        return [
            [(bucket, field, rank) for rank in _rarest(row[field], self._ranks[field])]
            for field, is_long in enumerate(long)
            if is_long
        ]


def _rank_words(texts: Sequence[Words]) -> dict[str, int]:
    """Return each word's rank, the rarest first. Equally rare words are in alphabetical order, so that all rows agree."""
    counts: Counter[str] = Counter()
    for words in texts:
        if _may_differ(words):
            counts.update(set(words))
    return {word: rank for rank, (word, _) in enumerate(sorted(counts.items(), key=lambda item: (item[1], item[0])))}


def _rarest(words: Words, ranks: dict[str, int]) -> list[int]:
    # A near text is at most 1 / 0.95 times as long, so that the two differ in at most a 19th of these words.
    return sorted(map(ranks.__getitem__, set(words)))[: len(words) // (NEAR - 1) + 1]


def _differ_in_at_most(most: int, words: Words, others: Words) -> bool:
    """Return whether the edit distance in words is at most `most`."""
    if abs(len(words) - len(others)) > most:
        return False
    start = 0
    shorter = min(len(words), len(others))
    while start < shorter and words[start] == others[start]:
        start += 1
    end = 0
    while end < shorter - start and words[-1 - end] == others[-1 - end]:
        end += 1
    words, others = words[start : len(words) - end], others[start : len(others) - end]
    known, other_known = set(words), set(others)
    if len(known - other_known) > most or len(other_known - known) > most:
        return False
    return _distance_in_band(words, others, most) <= most


def _distance_in_band(words: Words, others: Words, most: int) -> int:
    """Return the edit distance, or a number above `most` (Ukkonen 1985): only cells near the diagonal can lead to less."""
    far = most + 1
    previous = {column: column for column in range(min(most, len(others)) + 1)}
    for row, word in enumerate(words, start=1):
        current: dict[int, int] = {}
        for column in range(max(0, row - most), min(len(others), row + most) + 1):
            replaced = previous.get(column - 1, far) + (column == 0 or word != others[column - 1])
            inserted = current.get(column - 1, far) + 1
            current[column] = min(replaced, inserted, previous.get(column, far) + 1)
        if min(current.values()) > most:
            return far
        previous = current
    return previous.get(len(others), far)
