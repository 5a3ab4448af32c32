"""Attacks that change the wording and keep the meaning: sentences in another order, formal and informal words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random

from pytest_crucible.adversary.edits import Edit, Perturbed, apply_edits
from pytest_crucible.adversary.lexicon import load_lexicon
from pytest_crucible.adversary.source import Source, keep_case
from pytest_crucible.records.errors import SpecError

Perturb = Callable[[Source, Random, float], Perturbed]
# A mark, blanks, and the beginning of a sentence. "e.g. so" and "3.5" do not match.
_BREAK = re.compile(r"(?<=[.!?])(?P<blank>[ \t]+)(?=[\"'“(]?[A-ZÀ-Þ])")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|vs|etc|e\.g|i\.e|Fig|No|[A-Z])\.$")


def semantic_sentence_reorder(source: Source, rng: Random, strength: float) -> Perturbed:
    """Put the sentences of a line into another order. Lines, marks and blanks stay where they are."""
    edits = [edit for start, line in _lines(source.text) for edit in _reorder(source, start, line, rng)]
    return apply_edits(source.text, edits if strength else [])


def make_formality_change(direction: str = "informal") -> Perturb:
    """Return the attack that makes a text informal, or formal."""
    if direction not in ("informal", "formal"):
        raise SpecError(f'direction = {direction!r}: write "informal" or "formal"')

    def semantic_formality_change(source: Source, rng: Random, strength: float) -> Perturbed:
        if not strength:
            return Perturbed(source.text)
        pairs, pattern = _pairs(direction)
        matches = [match for match in pattern.finditer(source.text) if source.is_free(*match.span())]
        return apply_edits(
            source.text,
            [Edit(*match.span(), keep_case(match[0], rng.choice(pairs[match[0].lower()]))) for match in matches],
        )

    return semantic_formality_change


def _lines(text: str) -> Sequence[tuple[int, str]]:
    return [(match.start(), match[0]) for match in re.finditer(r"[^\n]+", text)]


def _reorder(source: Source, start: int, line: str, rng: Random) -> list[Edit]:
    # A break within code or another protected span is not one.
    breaks = [
        match for match in _BREAK.finditer(line)
        if source.is_free(start + match.start(), start + match.end()) and not _ABBREVIATION.search(line[: match.start()])
    ]  # fmt: skip
    if not breaks:
        return []
    places = [0, *(match.end() for match in breaks)], [*(match.start() for match in breaks), len(line.rstrip())]
    sentences = [(begin, end, line[begin:end]) for begin, end in zip(*places, strict=True)]
    order = _another_order(len(sentences), rng)
    moved = [(sentences[number], sentences[other][2]) for number, other in enumerate(order)]
    return [Edit(start + begin, start + end, text) for (begin, end, own), text in moved if text != own]


def _another_order(count: int, rng: Random) -> list[int]:
    order = list(range(count))
    while order == sorted(order):
        rng.shuffle(order)
    return order


_cached: dict[str, tuple[Mapping[str, tuple[str, ...]], re.Pattern[str]]] = {}


def _pairs(direction: str) -> tuple[Mapping[str, tuple[str, ...]], re.Pattern[str]]:
    """Return phrase -> replacements, and a pattern that finds whole phrases, the longest first."""
    if direction not in _cached:
        formal = load_lexicon("formality.txt")
        pairs = formal if direction == "informal" else _invert_pairs(formal)
        words = "|".join(re.escape(phrase) for phrase in sorted(pairs, key=len, reverse=True))
        _cached[direction] = pairs, re.compile(rf"(?<![\w'’])(?:{words})(?![\w'’])", re.IGNORECASE)
    return _cached[direction]


def _invert_pairs(pairs: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    turned: dict[str, tuple[str, ...]] = {}
    for formal, informal in pairs.items():
        for word in informal:
            turned.setdefault(word.lower(), (formal,))
    return turned
