"""Attacks on characters: swapped, left out, inserted, look-alike and mistyped ones, case, blanks, misspellings, obfuscations."""

from __future__ import annotations

import base64
import codecs
import string
import textwrap
from collections.abc import Callable
from functools import cache
from random import Random

from pytest_crucible.features.robustness.edits import (
    Edit,
    Perturb,
    Perturbed,
    Source,
    apply_edits,
    draw_apart,
    draw_sites,
    load_lexicon,
    replace_words,
)
from pytest_crucible.records.errors import SpecError, suggest

# The rows from the top, and how far each is shifted to the right, in keys.
LAYOUTS: dict[str, tuple[str, str, str]] = {
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "qwertz": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "azerty": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "dvorak": ("',.pyfgcrl", "aoeuidhtns", ";qjkxbmwvz"),
}
# Keys by which each row is shifted to the right on common keyboards.
_SHIFTS = (0.0, 0.25, 0.75)
_NEAR = 1.3
"""Keys between the middles of two neighbours: the key beside, and the two above and below."""


@cache
def neighbours(layout: str) -> dict[str, str]:
    """Return the letters beside each letter of a layout. Raises SpecError for an unknown one.

    >>> neighbours("qwerty")["g"], neighbours("qwertz")["t"]
    ('tyfhvb', 'rzfg')
    """
    if layout not in LAYOUTS:
        hint = suggest(str(layout), LAYOUTS, always=f"the layouts are {', '.join(LAYOUTS)}")
        raise SpecError(f"layout {layout!r} is not known: {hint}")
    places = {
        letter: (column + shift, row)
        for row, (letters, shift) in enumerate(zip(LAYOUTS[layout], _SHIFTS, strict=True))
        for column, letter in enumerate(letters)
        if letter.isalpha()
    }
    return {
        letter: "".join(other for other, place in places.items() if other != letter and _is_near(places[letter], place))
        for letter in places
    }


def _is_near(first: tuple[float, int], other: tuple[float, int]) -> bool:
    return abs(first[1] - other[1]) <= 1 and (first[0] - other[0]) ** 2 + (first[1] - other[1]) ** 2 <= _NEAR**2


# Unicode TR39 (confusables.txt), Cyrillic, Greek and Armenian; NFKC turns none of them into a Latin letter.
HOMOGLYPHS = {
    letters[0]: letters[1:]
    for letters in (
        "aа cс dԁ eе gց hһ iіι jјϳ nո oоοօ pрρ qԛ rг sѕ uսυ vѵν wԝ xх yуү AАΑ "
        "BВΒ CС EЕΕ FϜ GԌ HНΗ JЈ KКΚ MМΜ NΝ OОΟ PРΡ SЅ TТΤ UՍ VѴ WԜ XХΧ YΥҮ ZΖ"
    ).split()
}
"""Each letter with those that look like it."""


def character_swap(source: Source, rng: Random, strength: float) -> Perturbed:
    """Swap two unequal neighbours within a word; the case of both places stays."""
    text = source.text
    sites = [
        at for start, end in source.places.words for at in range(start, end - 1)
        if text[at].isalpha() and text[at + 1].isalpha() and text[at].lower() != text[at + 1].lower()
    ]  # fmt: skip
    drawn = draw_apart(rng, sites, strength, lambda at: (at, at + 1))
    return apply_edits(text, [Edit(at, at + 2, _swap_letters(text[at], text[at + 1])) for at in drawn])


def character_delete(source: Source, rng: Random, strength: float) -> Perturbed:
    """Leave out letters, but never the first of a word."""
    return apply_edits(
        source.text, [Edit(at, at + 1, "") for at in draw_sites(rng, source.places.inner_letters, strength)]
    )


def character_insert(source: Source, rng: Random, strength: float) -> Perturbed:
    """Insert a letter from a to z behind a letter, in its case."""
    drawn = draw_sites(rng, source.places.letters, strength)
    return apply_edits(
        source.text, [Edit(at + 1, at + 1, _like(source.text, at, rng.choice(string.ascii_lowercase))) for at in drawn]
    )


def homoglyph(source: Source, rng: Random, strength: float) -> Perturbed:
    """Replace letters by ones of other alphabets that look the same."""
    text = source.text
    sites = [at for at in source.places.letters if text[at] in HOMOGLYPHS]
    drawn = draw_sites(rng, sites, strength)
    return apply_edits(text, [Edit(at, at + 1, rng.choice(HOMOGLYPHS[text[at]])) for at in drawn])


def make_keyboard_typo(layout: str = "qwerty") -> Perturb:
    """Return the attack that mistypes letters: a neighbouring key, a letter doubled, left out, or before its neighbour."""
    keys = neighbours(layout)

    def keyboard_typo(source: Source, rng: Random, strength: float) -> Perturbed:
        text = source.text
        sites = source.places.inner_letters
        drawn = draw_apart(rng, sites, strength, lambda at: (at - 1, at))
        return apply_edits(text, [_mistype(text, at, rng, keys) for at in drawn])

    return keyboard_typo


def case_noise(source: Source, rng: Random, strength: float) -> Perturbed:
    """Exchange capitals and small letters."""
    text = source.text
    sites = [at for at in source.places.letters if text[at].swapcase() != text[at] and len(text[at].swapcase()) == 1]
    return apply_edits(text, [Edit(at, at + 1, text[at].swapcase()) for at in draw_sites(rng, sites, strength)])


def whitespace_noise(source: Source, rng: Random, strength: float) -> Perturbed:
    """Double the blank between two words, leave it out, or write a tab. Lines stay."""
    drawn = draw_sites(rng, source.places.gaps, strength)
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


_EMPHASES = ("**", "__", "*", "_", "~~", "`")
_TAGS = ("b", "i", "em", "strong", "span", "u")
# Grave, acute, circumflex, tilde, diaeresis, ring, caron, dot below, long stroke.
_MARKS = "\u0300\u0301\u0302\u0303\u0308\u030a\u030c\u0323\u0336"
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\u00ad"
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_LEET = str.maketrans("aeiostAEIOST", "431057431057")
_LINE = 40


def _edit_words(write: Callable[[str, Random], str]) -> Perturb:
    """Return the attack that writes a share of the words in another way."""

    def obfuscate(source: Source, rng: Random, strength: float) -> Perturbed:
        drawn = draw_sites(rng, source.places.words, strength)
        return apply_edits(
            source.text, [Edit(start, end, write(source.text[start:end], rng)) for start, end in sorted(drawn)]
        )

    return obfuscate


def _encode_text(encode: Callable[[str], str]) -> Perturb:
    """Return the attack that encodes the whole text."""

    def obfuscate(source: Source, rng: Random, strength: float) -> Perturbed:
        return Perturbed(encode(source.text)) if source.text else Perturbed("")

    return obfuscate


def _emphasise(word: str, rng: Random) -> str:
    sign = rng.choice(_EMPHASES)
    return f"{sign}{word}{sign}"


def _add_tag(word: str, rng: Random) -> str:
    tag, at = rng.choice(_TAGS), rng.randrange(len(word))
    return f"{word[:at]}<{tag}>{word[at:]}</{tag}>"


def _write_entities(word: str, rng: Random) -> str:
    form = rng.choice(("&#{};", "&#x{:x};"))
    return "".join(form.format(ord(letter)) for letter in word)


def _write_percent(word: str, rng: Random) -> str:
    return "".join(f"%{code:02X}" for code in word.encode())


def _add_marks(word: str, rng: Random) -> str:
    return "".join(letter + rng.choice(_MARKS) if letter.isalpha() else letter for letter in word)


def _add_zero_width(word: str, rng: Random) -> str:
    return "".join(letter + rng.choice(_ZERO_WIDTH) for letter in word)


def _spell(word: str, rng: Random) -> str:
    return rng.choice(" .-*").join(word)


markdown_emphasis = _edit_words(_emphasise)
html_tags = _edit_words(_add_tag)
html_entities = _edit_words(_write_entities)
percent_encoding = _edit_words(_write_percent)
combining_marks = _edit_words(_add_marks)
zero_width = _edit_words(_add_zero_width)
full_width = _edit_words(lambda word, rng: word.translate(_FULL_WIDTH))
leetspeak = _edit_words(lambda word, rng: word.translate(_LEET))
spelled_out = _edit_words(_spell)
base64_lines = _encode_text(lambda text: "\n".join(textwrap.wrap(base64.b64encode(text.encode()).decode(), _LINE)))
hex_encoding = _encode_text(lambda text: text.encode().hex())
rot13 = _encode_text(lambda text: codecs.encode(text, "rot13"))


def underscores(source: Source, rng: Random, strength: float) -> Perturbed:
    """Write underscores instead of blanks between words."""
    return apply_edits(source.text, [Edit(at, at + 1, "_") for at in draw_sites(rng, source.places.gaps, strength)])
