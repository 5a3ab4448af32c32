"""Attacks on words and sentences: left out, inserted, exchanged, in another order, replaced by synonyms or by another tone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random

from pytest_crucible.features.robustness.edits import (
    Edit,
    Perturb,
    Perturbed,
    Source,
    apply_edits,
    count_edits,
    draw_apart,
    draw_sites,
    keep_case,
    load_lexicon,
    read_lexicon,
    replace_words,
)
from pytest_crucible.records.errors import SpecError


def make_word_deletion(words: str = "stop") -> Perturb:
    """Return the attack that leaves out stop words, or with `words="all"` any word."""
    if words not in ("stop", "all"):
        raise SpecError(f'words = {words!r}: write "stop" (words without which a sentence is understood) or "all"')

    def word_deletion(source: Source, rng: Random, strength: float) -> Perturbed:
        stop = _word_list("stopwords.txt")
        spans = [
            _with_blank(source, number)
            for number, word in enumerate(source.lower_words)
            if words == "all" or word in stop
        ]
        sites = [span for span in spans if span is not None]
        # The last word of a line is removed with the blank before it, which the word before may have taken already.
        drawn = draw_apart(rng, sites, count_edits(strength, len(sites)), lambda span: range(*span))
        return apply_edits(source.text, [Edit(*span, "") for span in drawn])

    return word_deletion


def word_insertion(source: Source, rng: Random, strength: float) -> Perturbed:
    """Insert fillers such as "actually" between two words."""
    fillers = sorted(_word_list("fillers.txt"))
    drawn = draw_sites(rng, source.gaps, count_edits(strength, len(source.gaps)))
    return apply_edits(source.text, [Edit(at + 1, at + 1, f"{rng.choice(fillers)} ") for at in drawn])


def word_shuffle(source: Source, rng: Random, strength: float) -> Perturbed:
    """Exchange neighbouring words. A word is moved once at most; the case of both places stays."""
    gaps, words = set(source.gaps), source.words
    sites = [
        number for number in range(len(words) - 1)
        if words[number][1] in gaps and words[number + 1][0] == words[number][1] + 1
        and source.lower_words[number] != source.lower_words[number + 1]
    ]  # fmt: skip
    drawn = draw_apart(rng, sites, count_edits(strength, len(sites)), lambda number: (number, number + 1))
    return apply_edits(source.text, [_exchange(source, number) for number in drawn])


def make_synonym_replacement(lexicon: str | None = None, root: Path = Path()) -> Perturb:
    """Return the attack that replaces whole words by synonyms, of the package's lexicon or of a file below `root`."""
    read = read_lexicon(root / lexicon) if lexicon else None

    def synonym_replacement(source: Source, rng: Random, strength: float) -> Perturbed:
        return replace_words(source, rng, strength, load_lexicon("synonyms.txt") if read is None else read)

    return synonym_replacement


def _exchange(source: Source, number: int) -> Edit:
    (start, end), (after, last) = source.words[number], source.words[number + 1]
    first, second = source.text[start:end], source.text[after:last]
    if first[:1].isupper() and not first[1:2].isupper() and second.islower():
        # The first word of a sentence.
        first, second = first.lower(), keep_case("A", second)
    return Edit(start, last, f"{second} {first}")


def _with_blank(source: Source, number: int) -> tuple[int, int] | None:
    """Return the span of a word with one blank next to it on its line; None if it stands alone."""
    start, end = source.words[number]
    if source.text[end : end + 1] == " " and source.is_free(end, end + 1):
        return start, end + 1
    if start and source.text[start - 1] == " " and source.is_free(start - 1, start):
        return start - 1, end
    return None


@cache
def _word_list(name: str) -> frozenset[str]:
    text = files("pytest_crucible.features.robustness").joinpath("data", name).read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


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
