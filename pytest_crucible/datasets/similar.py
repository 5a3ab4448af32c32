"""Texts that are equal or similar: their words as numbers, and pairs of texts with a high Jaccard similarity, exactly."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.records.question_text import normalise

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
        counts: Counter[str] = Counter()
        for words in texts:
            counts.update(set(words))
        ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]))
        self._numbers = {word: number for number, (word, _) in enumerate(ranked)}

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
