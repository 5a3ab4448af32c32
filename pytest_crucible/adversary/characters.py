"""Attacks on characters: swapped, left out, inserted, look-alike and mistyped ones, case, blanks and misspellings."""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random

from pytest_crucible.adversary.edits import Edit, Perturbed, apply_edits, count_edits, draw_apart, draw_sites
from pytest_crucible.adversary.keyboards import neighbours
from pytest_crucible.adversary.lexicon import load_lexicon, replace_words
from pytest_crucible.adversary.source import Source

Perturb = Callable[[Source, Random, float], Perturbed]

# Unicode TR39 (confusables.txt), Cyrillic, Greek and Armenian; NFKC turns none of them into a Latin letter.
HOMOGLYPHS = {
    "a": "а",
    "c": "с",
    "d": "ԁ",
    "e": "е",
    "g": "ց",
    "h": "һ",
    "i": "іι",
    "j": "јϳ",
    "n": "ո",
    "o": "оοօ",
    "p": "рρ",
    "q": "ԛ",
    "r": "г",
    "s": "ѕ",
    "u": "սυ",
    "v": "ѵν",
    "w": "ԝ",
    "x": "х",
    "y": "уү",
    "A": "АΑ",
    "B": "ВΒ",
    "C": "С",
    "E": "ЕΕ",
    "F": "Ϝ",
    "G": "Ԍ",
    "H": "НΗ",
    "J": "Ј",
    "K": "КΚ",
    "M": "МΜ",
    "N": "Ν",
    "O": "ОΟ",
    "P": "РΡ",
    "S": "Ѕ",
    "T": "ТΤ",
    "U": "Ս",
    "V": "Ѵ",
    "W": "Ԝ",
    "X": "ХΧ",
    "Y": "ΥҮ",
    "Z": "Ζ",
}


def character_swap(source: Source, rng: Random, strength: float) -> Perturbed:
    """Swap two unequal neighbours within a word; the case of both places stays."""
    text = source.text
    sites = [
        at for start, end in source.words for at in range(start, end - 1)
        if text[at].isalpha() and text[at + 1].isalpha() and text[at].lower() != text[at + 1].lower()
    ]  # fmt: skip
    drawn = draw_apart(rng, sites, count_edits(strength, len(sites)), lambda at: (at, at + 1))
    return apply_edits(text, [Edit(at, at + 2, _swap_letters(text[at], text[at + 1])) for at in drawn])


def character_delete(source: Source, rng: Random, strength: float) -> Perturbed:
    """Leave out letters, but never the first of a word."""
    drawn = draw_sites(rng, source.inner_letters, count_edits(strength, len(source.inner_letters)))
    return apply_edits(source.text, [Edit(at, at + 1, "") for at in drawn])


def character_insert(source: Source, rng: Random, strength: float) -> Perturbed:
    """Insert a letter from a to z behind a letter, in its case."""
    drawn = draw_sites(rng, source.letters, count_edits(strength, len(source.letters)))
    return apply_edits(
        source.text, [Edit(at + 1, at + 1, _like(source.text, at, rng.choice(string.ascii_lowercase))) for at in drawn]
    )


def homoglyph(source: Source, rng: Random, strength: float) -> Perturbed:
    """Replace letters by ones of other alphabets that look the same."""
    text = source.text
    sites = [at for at in source.letters if text[at] in HOMOGLYPHS]
    drawn = draw_sites(rng, sites, count_edits(strength, len(sites)))
    return apply_edits(text, [Edit(at, at + 1, rng.choice(HOMOGLYPHS[text[at]])) for at in drawn])


def make_keyboard_typo(layout: str = "qwerty") -> Perturb:
    """Return the attack that mistypes letters: a neighbouring key, a letter doubled, left out, or before its neighbour."""
    keys = neighbours(layout)

    def keyboard_typo(source: Source, rng: Random, strength: float) -> Perturbed:
        text = source.text
        sites = source.inner_letters
        drawn = draw_apart(rng, sites, count_edits(strength, len(sites)), lambda at: (at - 1, at))
        return apply_edits(text, [_mistype(text, at, rng, keys) for at in drawn])

    return keyboard_typo


def case_noise(source: Source, rng: Random, strength: float) -> Perturbed:
    """Exchange capitals and small letters."""
    text = source.text
    sites = [at for at in source.letters if text[at].swapcase() != text[at] and len(text[at].swapcase()) == 1]
    drawn = draw_sites(rng, sites, count_edits(strength, len(sites)))
    return apply_edits(text, [Edit(at, at + 1, text[at].swapcase()) for at in drawn])


def whitespace_noise(source: Source, rng: Random, strength: float) -> Perturbed:
    """Double the blank between two words, leave it out, or write a tab. Lines stay."""
    drawn = draw_sites(rng, source.gaps, count_edits(strength, len(source.gaps)))
    return apply_edits(source.text, [Edit(at, at + 1, rng.choice(("  ", "", "\t"))) for at in drawn])


def misspelling(source: Source, rng: Random, strength: float) -> Perturbed:
    """Write words as people often misspell them."""
    return replace_words(source, rng, strength, load_lexicon("misspellings.txt"))


def _swap_letters(first: str, second: str) -> str:
    return _in_case_of(first, second) + _in_case_of(second, first)


def _in_case_of(place: str, letter: str) -> str:
    changed = letter.upper() if place.isupper() else letter.lower()
    # A letter such as the German sharp s has no capital of one letter.
    return changed if len(changed) == 1 else letter


def _like(text: str, at: int, letter: str) -> str:
    """Return a letter as a capital behind two capitals or at the end of a word of one: `USA` stays in capitals."""
    return letter.upper() if text[at].isupper() and at and text[at - 1].isupper() else letter


def _mistype(text: str, at: int, rng: Random, keys: dict[str, str]) -> Edit:
    letter, before = text[at], text[at - 1]
    near = keys.get(letter.lower(), "")
    kinds = ["double", "omit"] + ["near"] * bool(near)
    kinds += ["transpose"] * (before.isalpha() and before.lower() != letter.lower())
    kind = rng.choice(kinds)
    if kind == "transpose":
        return Edit(at - 1, at + 1, _swap_letters(before, letter))
    if kind == "near":
        return Edit(at, at + 1, _in_case_of(letter, rng.choice(near)))
    return Edit(at, at + 1, letter * 2 if kind == "double" else "")
