"""Greedy search for the worst text: one small edit after the other, kept unless the model does better.

The score of a single reply is noise in part, so the worst text of a search is sent again, and only that reply counts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from pytest_crucible.adversary.characters import character_insert, character_swap, homoglyph
from pytest_crucible.adversary.edits import Perturbed, count_edits
from pytest_crucible.adversary.lexicon import load_lexicon, replace_words
from pytest_crucible.adversary.source import Source

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
