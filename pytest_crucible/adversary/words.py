"""Attacks on words: left out, inserted, exchanged with their neighbour, and replaced by synonyms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random

from pytest_crucible.adversary.edits import Edit, Perturbed, apply_edits, count_edits, draw_apart, draw_sites
from pytest_crucible.adversary.lexicon import load_lexicon, read_lexicon, replace_words
from pytest_crucible.adversary.source import Source, keep_case
from pytest_crucible.records.errors import SpecError

Perturb = Callable[[Source, Random, float], Perturbed]


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
    text = files("pytest_crucible.adversary").joinpath("data", name).read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))
