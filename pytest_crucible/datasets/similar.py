"""Texts that are equal or similar: pairs with a high Jaccard similarity, and rows that repeat an earlier one.

A row repeats another if they are equal after normalising, or different in at most 5 % of the words: the difference of two texts is
their edit distance in words (words inserted, deleted or replaced), as a share of the longer text. Every field of a row (prompt,
completion, ...) has to be that near: two prompts may differ in one number, and then their answers do.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.datasets import normalise

_WORD = re.compile(r"\w+")
Numbers = npt.NDArray[np.int64]


def split_words(text: str) -> list[str]:
    """Return the words of a text: runs of letters, digits and underscores, in lower case.

    >>> split_words("It's 2-fold, in vivo.")
    ['it', 's', '2', 'fold', 'in', 'vivo']
    """
    return _WORD.findall(text.lower())


@dataclass(frozen=True, slots=True)
class Encoded:
    """Texts as numbers of words, one text after the other."""

    words: Numbers
    """The number of each word in the vocabulary; -1 for a word that is not in it."""
    lengths: Numbers
    """The number of words of each text."""
    distinct: Numbers
    """The number of different words of each text, those that are not in the vocabulary included."""

    @property
    def texts(self) -> Numbers:
        """The text that each word belongs to."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


class Vocabulary:
    """The words of some texts, numbered from the rarest to the most frequent; equally rare words by name."""

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self._numbers = _rank_words(texts)

    def __len__(self) -> int:
        return len(self._numbers)

    def encode(self, texts: Sequence[Sequence[str]]) -> Encoded:
        """Return texts as numbers of words."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        # Maps, not generators: this loop is most of the time of a comparison with a million rows.
        numbers = map(self._numbers.get, chain.from_iterable(texts), repeat(-1))
        flat = np.fromiter(numbers, dtype=np.int64, count=lengths.sum())
        distinct = np.fromiter(map(len, map(set, texts)), dtype=np.int64, count=len(texts))
        return Encoded(flat, lengths, distinct)


def sort_unique(keys: Numbers) -> Numbers:
    """Return the different keys in order, as `np.unique` does, which is slower on keys that are nearly sorted."""
    if not len(keys):
        return keys
    ordered = np.sort(keys)
    unique: Numbers = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return unique


# Two words of 64 bits: more bits reject more pairs, and cost as much more for each.
_SIGNATURE_WORDS = 2
_SEED = 20071
# Pairs that are expanded at a time: 64 MB.
_MOST_PAIRS = 2_000_000
# Rounding of a similarity: a pair just at the limit counts as similar.
_SLACK = 1e-9
Signatures = npt.NDArray[np.uint64]


class Pairs(NamedTuple):
    """Pairs of similar texts, as parallel columns."""

    texts: Numbers
    """The text that was compared with those of the index."""
    indexed: Numbers
    """The text of the index."""
    similarities: npt.NDArray[np.float64]


class SimilarSets:
    """An index of texts by their words, to find those that are similar to others."""

    def __init__(self, texts: Sequence[Sequence[str]], vocabulary: Vocabulary, least: float) -> None:
        """`least` is the smallest similarity that is found, above 0 and at most 1."""
        self._least = least
        self._masks = _draw_masks(max(len(vocabulary), 1))
        sets = _WordSets(vocabulary.encode(texts), len(vocabulary))
        self._sizes = sets.sizes
        self._signatures = sets.signatures(self._masks)
        # The words of each indexed text as one sorted list of numbers, to count how many words are common.
        self._width = max(len(vocabulary), 1)
        self._members = sets.texts * self._width + sets.words
        prefix = sets.in_prefix(least)
        order = np.argsort(sets.words[prefix], kind="stable")
        self._postings = sets.texts[prefix][order]
        self._starts = np.searchsorted(sets.words[prefix][order], np.arange(self._width + 1))

    def find(self, encoded: Encoded) -> Iterator[Pairs]:
        """Yield all pairs of a text and an indexed text that are at least as similar as the index finds."""
        sets = _WordSets(encoded, self._width)
        signatures = sets.signatures(self._masks)
        prefix = sets.in_prefix(self._least)
        words, texts = sets.words[prefix], sets.texts[prefix]
        counts = self._starts[words + 1] - self._starts[words]
        used = counts > 0
        words, texts, counts = words[used], texts[used], counts[used]
        for part in _parts(counts):
            yield self._verify(sets, signatures, texts[part], words[part], counts[part])

    def _verify(
        self, sets: _WordSets, signatures: Sequence[Signatures], texts: Numbers, words: Numbers, counts: Numbers
    ) -> Pairs:
        places = np.repeat(self._starts[words] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        indexed, of_text = self._postings[places], np.repeat(texts, counts)
        total = self._sizes[indexed] + sets.sizes[of_text]
        # J >= t is the same as: at most (1 - t) / (1 + t) of all words of both are in one of them only.
        most = (total * ((1 - self._least) / (1 + self._least)) + _SLACK).astype(np.int64)
        # The first 64 bits reject most pairs, so that only the rest is compared by all bits.
        near = np.flatnonzero(_count_bits(signatures[0][of_text] ^ self._signatures[0][indexed]) <= most)
        of_text, indexed, most = of_text[near], indexed[near], most[near]
        near = self._distance(signatures, of_text, indexed) <= most
        keys = sort_unique(of_text[near] * len(self._sizes) + indexed[near])
        of_text, indexed = np.divmod(keys, max(len(self._sizes), 1))
        common = self._count_common(sets, of_text, indexed)
        similarity = common / np.maximum(self._sizes[indexed] + sets.sizes[of_text] - common, 1)
        is_similar = similarity >= self._least - _SLACK
        return Pairs(of_text[is_similar], indexed[is_similar], similarity[is_similar])

    def _distance(self, signatures: Sequence[Signatures], texts: Numbers, indexed: Numbers) -> Numbers:
        pairs = zip(signatures, self._signatures, strict=True)
        return sum(
            (_count_bits(ours[texts] ^ theirs[indexed]) for ours, theirs in pairs), np.zeros(len(texts), dtype=np.int64)
        )

    def _count_common(self, sets: _WordSets, texts: Numbers, indexed: Numbers) -> Numbers:
        """Return the number of words that both texts of each pair have."""
        counts = sets.starts[texts + 1] - sets.starts[texts]
        pair = np.repeat(np.arange(len(texts)), counts)
        places = np.repeat(sets.starts[texts] - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
        members = indexed[pair] * self._width + sets.words[places]
        if not len(self._members):
            return np.zeros(len(texts), dtype=np.int64)
        is_common = (
            self._members[np.minimum(np.searchsorted(self._members, members), len(self._members) - 1)] == members
        )
        return np.bincount(pair[is_common], minlength=len(texts))


class _WordSets:
    """The different words of each text that are in the vocabulary, sorted by text and rarity."""

    def __init__(self, encoded: Encoded, width: int) -> None:
        has_number = encoded.words >= 0
        keys = sort_unique(encoded.texts[has_number] * max(width, 1) + encoded.words[has_number])
        self.texts, self.words = np.divmod(keys, max(width, 1))
        self.sizes = encoded.distinct
        self.starts = np.searchsorted(self.texts, np.arange(len(encoded.lengths) + 1))

    def in_prefix(self, least: float) -> npt.NDArray[np.bool_]:
        """Return which words are among the first of their text. Words outside of the vocabulary are the rarest."""
        needed = np.ceil(least * self.sizes - _SLACK).astype(np.int64)
        length = self.sizes - needed + 1
        unknown = self.sizes - (self.starts[1:] - self.starts[:-1])
        rank = np.arange(len(self.words)) - self.starts[self.texts]
        is_first: npt.NDArray[np.bool_] = rank < (length - unknown)[self.texts]
        return is_first

    def signatures(self, masks: Sequence[Signatures]) -> list[Signatures]:
        """Return, for each bit, the parity of the words that set it. Unknown words set none, which only lowers the distance."""
        return [self._flip(mask[self.words]) for mask in masks]

    def _flip(self, masks: Signatures) -> Signatures:
        """Return the exclusive or of the masks of each text's words."""
        # One more mask, because a text without words may begin behind the last one.
        flipped = np.bitwise_xor.reduceat(np.append(masks, np.uint64(0)), self.starts[:-1])
        flipped[self.starts[:-1] == self.starts[1:]] = 0
        return flipped


def _draw_masks(words: int) -> list[Signatures]:
    """Return for each word one random bit, as masks of `_SIGNATURE_WORDS` parts."""
    bits = np.random.default_rng(_SEED).integers(0, 64 * _SIGNATURE_WORDS, size=words)
    ones = np.left_shift(np.uint64(1), (bits % 64).astype(np.uint64))
    return [np.where(bits // 64 == part, ones, np.uint64(0)) for part in range(_SIGNATURE_WORDS)]


def _parts(counts: Numbers) -> Iterator[slice]:
    """Yield parts of the words whose pairs fit into memory together."""
    ends = np.cumsum(counts)
    start, before = 0, 0
    while start < len(counts):
        end = max(int(np.searchsorted(ends, before + _MOST_PAIRS, side="right")), start + 1)
        yield slice(start, end)
        start, before = end, int(ends[end - 1])


if hasattr(np, "bitwise_count"):

    def _count_bits(words: Signatures) -> Numbers:
        """Return the number of bits of each word."""
        counts: Numbers = np.bitwise_count(words).astype(np.int64)
        return counts
else:  # pragma: no cover - numpy before 2.0
    _BITS = np.array([bin(k).count("1") for k in range(65536)], dtype=np.int64)

    def _count_bits(words: Signatures) -> Numbers:
        """Return the number of bits of each word."""
        counts: Numbers = _BITS[words.view(np.uint16)].reshape(len(words), -1).sum(axis=1)
        return counts


# Texts that are looked up at a time, which bounds the memory for pairs.
_CHUNK = 4000


def find_equal(texts: Sequence[str]) -> Numbers:
    """Return the positions of all texts that are equal to another one after normalising; empty texts are not compared.

    >>> find_equal(["Two plus two?", "two  plus two?", "three"]).tolist()
    [0, 1]
    """
    positions: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        positions.setdefault(normalise(text), []).append(position)
    positions.pop("", None)
    return np.array(sorted(k for group in positions.values() if len(group) > 1 for k in group), dtype=np.int64)


def find_similar(texts: Sequence[str], least: float) -> Numbers:
    """Return the positions of all texts that have a Jaccard similarity of at least `least` with another one.

    >>> find_similar(["a b c d e f g h i x", "a b c d e f g h i y", "z"], 0.8).tolist()
    [0, 1]
    """
    words = [split_words(text) for text in texts]
    vocabulary = Vocabulary(words)
    index = SimilarSets(words, vocabulary, least)
    is_similar = np.zeros(len(texts), dtype=bool)
    for start in range(0, len(texts), _CHUNK):
        for pairs in index.find(vocabulary.encode(words[start : start + _CHUNK])):
            others = pairs.texts + start != pairs.indexed
            is_similar[pairs.indexed[others]] = True
    return np.flatnonzero(is_similar)


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
    normal = {text: normalise(text) for text in dict.fromkeys(chain.from_iterable(rows))}
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
    # Where the earlier row is itself a near duplicate, the row that stays is the one that it repeats.
    firsts = [None if duplicate is None else duplicates[duplicate.of] for duplicate in duplicates]
    return [
        duplicate if first is None else Duplicate(first.of, False)
        for duplicate, first in zip(duplicates, firsts, strict=True)
    ]


def is_near(words: Words, others: Words) -> bool:
    """Return whether two texts differ in at most 5 % of the words of the longer one.

    >>> is_near("a b c".split(), "a b d".split()), is_near(["the"] * 20, ["the"] * 19 + ["a"])
    (False, True)
    """
    return words == others or _differ_in_at_most(max(len(words), len(others)) // NEAR, words, others)


def _is_long(text: str) -> bool:
    """Return whether a normalised text may differ in a word from one that it is near to."""
    return text.count(" ") >= _SHORTEST - 1


def _buckets(first: Mapping[tuple[str, ...], int]) -> Iterator[list[int]]:
    """Yield the positions of rows that may be near each other: all their short texts are equal, and they have long ones."""
    long = {text for text in dict.fromkeys(chain.from_iterable(first)) if _is_long(text)}
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
            for field, of_key in zip(row, places, strict=True):
                for key in field.keys:
                    of_key.setdefault(key, []).append(number)
        yield near


def _candidates(row: Sequence[_Field], places: Sequence[dict[Key, list[int]]]) -> list[int]:
    """Return the rows before that share a key. Any field finds all near rows: the one with the fewest is used."""
    by_field = [[of_key[key] for key in field.keys if key in of_key] for field, of_key in zip(row, places, strict=True)]
    fewest = min(by_field, key=lambda rows: sum(map(len, rows)))
    return sorted(set(chain.from_iterable(fewest)))


def _are_near(field: _Field, other: _Field) -> bool:
    # Comparing all words takes a hundred times as long as comparing the rarest ones, which rules out nearly all texts.
    most = min(field.most, other.most)
    shared = min(most + 2, max(len(field.rare), len(other.rare)) - most)
    return len(field.rare & other.rare) >= shared and is_near(field.words, other.words)


def _rank_words(texts: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return each word's rank, the rarest first. Equally rare words are in alphabetical order, so that all rows agree."""
    counts = Counter(chain.from_iterable(map(set, texts)))
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
    distinct, other_distinct = set(words), set(others)
    if len(distinct - other_distinct) > most or len(other_distinct - distinct) > most:
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
