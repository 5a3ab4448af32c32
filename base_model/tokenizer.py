"""Trains a tokenizer: each merge joins the most common pair of neighbours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pytest_crucible.local_model.tokens import Pair, Table, Tokenizer, cut_pieces, replace_pair


def train_tokenizer(texts: Iterable[str], vocabulary: int = 1024) -> Tokenizer:
    """Return a tokenizer with `vocabulary` ids: each merge joins the most common pair of neighbours.

    Of equally common pairs the first in the order of bytes wins, so that the order of the texts does not matter. Raises
    ValueError when the texts have too few pairs. Gage 1994; Sennrich, Haddow & Birch 2016.

    >>> train_tokenizer(["low lower lowest"], vocabulary=261).merges
    ((108, 111), (256, 119), (32, 257))
    """
    counts = Counter(piece for text in texts for piece in cut_pieces(text))
    words = [(list(piece.encode("utf-8")), count) for piece, count in sorted(counts.items())]
    table, pairs, merges = Table(), _Pairs(words), []
    while len(table.bytes) + 2 < vocabulary:
        best = pairs.commonest(table.bytes)
        merges.append(best)
        pairs.merge(best, table.add(best))
    return Tokenizer(tuple(merges))


class _Pairs:
    """The number of occurrences of every pair of neighbours, updated as pairs are merged."""

    def __init__(self, words: list[tuple[list[int], int]]) -> None:
        self.words = words
        self.counts: Counter[Pair] = Counter()
        self.where: defaultdict[Pair, set[int]] = defaultdict(set)
        for position in range(len(words)):
            self._count(position, +1)

    def commonest(self, texts: Sequence[bytes]) -> Pair:
        most = max(self.counts.values(), default=0)
        if most < 1:
            raise ValueError("the texts hold too few pairs for a vocabulary of this size")
        candidates = (pair for pair, count in self.counts.items() if count == most)
        return min(candidates, key=lambda pair: (texts[pair[0]], texts[pair[1]]))

    def merge(self, pair: Pair, merged: int) -> None:
        # A copy: counting changes the set while it is read.
        for position in tuple(self.where[pair]):
            self._count(position, -1)
            ids, count = self.words[position]
            self.words[position] = (replace_pair(ids, pair, merged), count)
            self._count(position, +1)

    def _count(self, position: int, sign: int) -> None:
        ids, count = self.words[position]
        for pair in pairwise(ids):
            self.counts[pair] += sign * count
            if sign > 0:
                self.where[pair].add(position)
            else:
                self.where[pair].discard(position)
