"""Certificates by random deletion, and the greedy search for the worst text.

Each word is deleted with chance p. The smoothed model's answer is the one that most of the shortened texts get; if it has a
share of at least L, then r = floor(ln(1.5 - L) / ln p) insertions, deletions and substitutions of words cannot change it
(Huang et al. 2023, RS-Del, arXiv 2302.01757, for edit distance and a majority of one half).

A search makes one small edit after the other, each kept unless the model does better. The score of a single reply is noise in
part, so the worst text of a search is sent again, and only that reply counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

from pytest_crucible import stats
from pytest_crucible.features.robustness.characters import character_insert, character_swap, homoglyph
from pytest_crucible.features.robustness.edits import Perturbed, Source, count_edits, load_lexicon, replace_words

SELECTION = 100
"""Draws that choose the answer. Others bound its share: the same ones would favour the answer that they have chosen."""
ALPHA = 0.001
"""The chance that a certificate is false."""
ABSTAINS = -1
_PARTS = re.compile(r"\s+|\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """The settings of a certificate."""

    noise: float
    draws: int

    @property
    def requests(self) -> int:
        """Requests for one sample."""
        return SELECTION + self.draws


def delete_words(text: str, rng: Random, noise: float) -> str:
    """Return a text in which each word is deleted with that chance; lines stay.

    >>> delete_words("a b\\nc", Random(0), 0.0), delete_words("a b\\nc", Random(0), 1.0)
    ('a b\\nc', '\\n')
    """
    remaining = [part for part in _PARTS.findall(text) if part.isspace() or rng.random() >= noise]
    lines = "".join(remaining).split("\n")
    return "\n".join(" ".join(line.split()) for line in lines)


def majority(answers: Sequence[str | None]) -> str | None:
    """Return the most frequent answer; None if most draws have none."""
    ((answer, _),) = Counter(answers).most_common(1) if answers else [(None, 0)]
    return answer


def certified_edits(hits: int, draws: int, noise: float, *, alpha: float = ALPHA) -> int:
    """Return how many word edits cannot change an answer that `hits` of `draws` deletions gave; -1 where none is certain.

    Raises ValueError for a noise that is not between 0 and 1.

    >>> certified_edits(1000, 1000, 0.9), certified_edits(600, 1000, 0.9), certified_edits(500, 1000, 0.9)
    (6, 0, -1)
    """
    if not 0 < noise < 1:
        raise ValueError(f"noise must be between 0 and 1, not {noise!r}")
    share = stats.clopper_pearson_bound(hits, draws, alpha=alpha, side="lower") if draws else 0.0
    return radius(share, noise)


def radius(share: float, noise: float) -> int:
    """Return the number of word edits that cannot change an answer with at least this share; -1 up to one half."""
    return ABSTAINS if share <= 0.5 else math.floor(math.log(1.5 - share) / math.log(noise))


_ONE = 1e-9
"""A strength at which an attack makes a single edit."""


async def search_text(
    source: Source,
    rng: Random,
    *,
    queries: int,
    strength: float,
    query: Callable[[str], Awaitable[float | None]],
    worst: float,
) -> str | None:
    """Return the text with the lowest score; None if nothing is eligible, or where no query had a score.

    `query` returns the score of a reply to a text, higher being better, or None if it is lost. The search begins again at
    the source after as many edits as the strength allows, and ends early at a score of `worst`, the lowest possible one.
    """
    most = count_edits(strength, len(source.letters))
    lowest: tuple[float, str] | None = None
    text, score, edits = source.text, float("inf"), 0
    for _ in range(queries if most else 0):
        if edits == most:
            text, score, edits = source.text, float("inf"), 0
        candidate = _edit(source, text, rng)
        value = await query(candidate)
        if value is None:
            continue
        if lowest is None or value < lowest[0]:
            lowest = (value, candidate)
        if value <= worst:
            break
        if value <= score:
            text, score, edits = candidate, value, edits + 1
    return None if lowest is None else lowest[1]


def _edit(source: Source, text: str, rng: Random) -> str:
    """Return a text with one more edit of a character, to a look-alike, or to a synonym."""
    current = Source(text, source.protect, source.expected)
    kinds = [character_swap, character_insert, homoglyph, _synonym]
    rng.shuffle(kinds)
    edited = (kind(current, rng, _ONE).text for kind in kinds)
    return next((candidate for candidate in edited if candidate != text), text)


def _synonym(source: Source, rng: Random, strength: float) -> Perturbed:
    return replace_words(source, rng, strength, load_lexicon("synonyms.txt"))
