"""Finds rows that repeat an earlier row: equal after normalising, or different in at most 5 % of the words.

The difference of two texts is their edit distance in words (words inserted, deleted or replaced), as a share of the longer text.
Every field of a row (prompt, completion, ...) has to be that near: two prompts may differ in one number, and then their answers do.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_crucible.records.question_text import normalise

NEAR = 20
"""One word in this many may differ, which is 5 %."""

# A text of 19 words is near one of 20; in shorter texts, one word is more than 5 %.
_SHORTEST = NEAR - 1

# A text of 40 words has 6 pairs of rare words; one of 500 would have 378.
_LONGEST_OF_PAIRS = 40

Words = list[str]
Key = int | tuple[int, int]
"""The rank of a rare word, or those of two."""


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
    # Gold answers and prompts occur in many rows: each text is normalised once.
    normal = {text: normalise(text) for text in dict.fromkeys(itertools.chain.from_iterable(rows))}
    normal_rows = [tuple([normal[text] for text in row]) for row in rows]
    duplicates: list[Duplicate | None] = []
    first: dict[tuple[str, ...], int] = {}
    for position, row in enumerate(normal_rows):
        earlier = first.setdefault(row, position)
        duplicates.append(None if earlier == position else Duplicate(earlier, True))
    for bucket in _buckets(first):
        texts = [tuple([text.split() for text in normal_rows[position] if _is_long(text)]) for position in bucket]
        for number, near in enumerate(_find_near(texts)):
            if near is not None:
                duplicates[bucket[number]] = Duplicate(bucket[near], False)
    return [_first_of_all(duplicates, duplicate) for duplicate in duplicates]


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


def _is_long(text: str) -> bool:
    """Return whether a normalised text may differ in a word from one that it is near to."""
    return text.count(" ") >= _SHORTEST - 1


def _buckets(first: Mapping[tuple[str, ...], int]) -> Iterator[list[int]]:
    """Yield the positions of rows that may be near each other: all their short texts are equal, and they have long ones."""
    long = {text for text in dict.fromkeys(itertools.chain.from_iterable(first)) if _is_long(text)}
    buckets: dict[tuple[str | None, ...], list[int]] = {}
    for row, position in first.items():
        buckets.setdefault(tuple([None if text in long else text for text in row]), []).append(position)
    # Short answers are often different in all rows, which are then near none.
    return (bucket for key, bucket in buckets.items() if len(bucket) > 1 and None in key)


class _Field(NamedTuple):
    """One long text of a row."""

    words: Words
    keys: list[Key]
    """Two texts that are near each other share one of these."""
    rare: frozenset[int]
    """The ranks of the rarest words."""
    most: int
    """The largest number of words in which a near text differs."""


def _find_near(rows: Sequence[tuple[Words, ...]]) -> Iterator[int | None]:
    """Yield for each row the first earlier row, itself not a duplicate, that all its texts are near to; None without one.

    Only rows that share a key in a field are compared: one or two rare words.
    """
    ranks = [_rank_words(texts) for texts in zip(*rows, strict=True)]
    places: list[dict[Key, list[int]]] = [{} for _ in ranks]
    fields = [list(map(_read_field, row, ranks)) for row in rows]
    for number, row in enumerate(fields):
        near = next((other for other in _candidates(row, places) if all(map(_are_near, row, fields[other]))), None)
        if near is None:
            for field, known in zip(row, places, strict=True):
                for key in field.keys:
                    known.setdefault(key, []).append(number)
        yield near


def _candidates(row: Sequence[_Field], places: Sequence[dict[Key, list[int]]]) -> list[int]:
    """Return the rows before that share a key. Any field finds all near rows: the one with the fewest is used."""
    by_field = [[known[key] for key in field.keys if key in known] for field, known in zip(row, places, strict=True)]
    fewest = min(by_field, key=lambda rows: sum(map(len, rows)))
    return sorted(set(itertools.chain.from_iterable(fewest)))


def _are_near(field: _Field, other: _Field) -> bool:
    # Comparing all words takes a hundred times as long as comparing the rarest ones, which rules out nearly all texts.
    most = min(field.most, other.most)
    shared = min(most + 2, max(len(field.rare), len(other.rare)) - most)
    return len(field.rare & other.rare) >= shared and is_near(field.words, other.words)


def _rank_words(texts: Sequence[Words]) -> dict[str, int]:
    """Return each word's rank, the rarest first. Equally rare words are in alphabetical order, so that all rows agree."""
    counts = Counter(itertools.chain.from_iterable(map(set, texts)))
    return {word: rank for rank, (word, _) in enumerate(sorted(counts.items(), key=lambda item: (item[1], item[0])))}


def _read_field(words: Words, ranks: dict[str, int]) -> _Field:
    """Return a text with its rarest words.

    Sets that differ in k words share l of the k + l rarest words of each, if they share at least l words (Wang et al. 2012,
    doi:10.1145/2213836.2213847; l = 1 is the prefix filter of Chaudhuri et al. 2006). Few texts share two rare words; but
    there are k^2 / 2 pairs, so that long texts have single words as keys.
    """
    # A near text is at most 1 / 0.95 times as long, so that the two differ in at most a 19th of these words.
    most = len(words) // (NEAR - 1)
    rare = sorted(map(ranks.__getitem__, set(words)))
    keys: list[Key] = [*itertools.combinations(rare[: most + 2], 2)] if len(words) <= _LONGEST_OF_PAIRS else []
    # A text that is near one without pairs has single words, too, and so has one with too few words to share two.
    if len(words) >= _LONGEST_OF_PAIRS * (NEAR - 1) // NEAR or len(rare) < 3 * most + 4:
        keys += rare[: most + 1]
    return _Field(words, keys, frozenset(rare[: 2 * most + 2]), most)


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
