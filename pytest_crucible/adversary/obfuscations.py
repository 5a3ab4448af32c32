"""Obfuscations: texts that a person or a model still reads, in another writing than a guard may look for."""

from __future__ import annotations

import base64
import codecs
import textwrap
from collections.abc import Callable
from random import Random

from pytest_crucible.adversary.edits import Edit, Perturbed, apply_edits, count_edits, draw_sites
from pytest_crucible.adversary.source import Source

Perturb = Callable[[Source, Random, float], Perturbed]
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
        drawn = draw_sites(rng, source.words, count_edits(strength, len(source.words)))
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
    drawn = draw_sites(rng, source.gaps, count_edits(strength, len(source.gaps)))
    return apply_edits(source.text, [Edit(at, at + 1, "_") for at in drawn])
