"""Words as numbers: the vocabulary of some texts, and other texts written in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

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
