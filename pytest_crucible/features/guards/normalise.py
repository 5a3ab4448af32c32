"""A text in lower case without disguise of its characters, and the threshold files that name texts by it."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pytest_crucible.features.guards.long_texts import (
    FEW_LETTERS,
    LONG,
    CharacterTable,
    Mask,
    join_code_points,
    join_spelled_out,
    read_code_points,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

# Letters of other alphabets that look like a Latin one, from Unicode's confusables (UTS 39). NFKC has already mapped those that
# Unicode calls compatible, such as full-width and mathematical letters.
_CONFUSABLES = {
    "a": "аɑαᴀА\u0391", "b": "ьвƅВ\u0392", "c": "сςᴄС", "d": "ԁɗ", "e": "еҽεɛᴇЕ\u0395", "f": "ғꜰ", "g": "ɡԍ", "h": "һнʜН\u0397",
    "i": "іıιɩɪІ\u0399", "j": "јϳЈ", "k": "кκᴋК\u039a", "l": "ӏʟ", "m": "мɱᴍМ\u039c", "n": "ոпηɴ\u039d", "o": "оοσօᴏО\u039f",
    "p": "рρᴘР\u03a1", "q": "ԛ", "r": "гʀ", "s": "ѕꜱЅ", "t": "тτᴛТ\u03a4", "u": "υսᴜ", "v": "νѵᴠ", "w": "ԝѡωᴡ", "x": "хχХ\u03a7",
    "y": "уγүʏУ\u03a5", "z": "ᴢ\u0396",
}  # fmt: skip
# Characters that are not drawn: zero-width and bidirectional ones, soft hyphens, variation selectors, combining marks.
_INVISIBLE = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFEFF, 0xFFA0]
# The diaeresis stays: German words have it.
_INVISIBLE += [*range(0x300, 0x308), *range(0x309, 0x370)]
_INVISIBLE += [*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10)]
# Tag characters spell ASCII without being drawn.
_TAGS = {0xE0000 + code: chr(code) for code in range(0x20, 0x7F)}
_UNDISGUISED = (
    {letter: latin for latin, letters in _CONFUSABLES.items() for letter in letters}
    | dict.fromkeys(map(chr, _INVISIBLE), "")
    | {chr(code): letter for code, letter in _TAGS.items()}
)
# Two characters that stand for phrases of 18 and 8 letters, which no rule has, are read as one of 4: no other has more than 6.
_PHRASES, _PHRASE = "\ufdfa\ufdfb", "\ufdf2"
_AFTER_MARKS = 0x20000
_DIAERESIS = "\u0308"
_UMLAUTS = {letter + _DIAERESIS: umlaut for letter, umlaut in zip("aou", "äöü", strict=True)}
# Letters of Latin-1 only, as rules have: `ж.i.g.n.o.r.e` is read, too.
_LETTER = f"[{''.join(character for character in map(chr, range(256)) if character.isalnum() or character == '_')}]"
_SINGLE_LETTER = re.compile(rf"(?<!{_LETTER}){_LETTER}(?!{_LETTER})")
_SPELLED_OUT = re.compile(rf"{_SINGLE_LETTER.pattern}(?:[ .*-]{_SINGLE_LETTER.pattern}){{2,}}")
_WORD = re.compile(r"\w+")
_WORDS_ONLY = bytes(code if chr(code).isalnum() or chr(code) == "_" else 32 for code in range(128)) + bytes(
    range(128, 256)
)


class Alphabet:
    """Replaces single characters by another, or by nothing."""

    def __init__(self, characters: Mapping[str, str]) -> None:
        ascii_only = all((character + other).isascii() and other for character, other in characters.items())
        self._bytes = (
            bytes.maketrans("".join(characters).encode(), "".join(characters.values()).encode()) if ascii_only else None
        )
        self._characters = str.maketrans(dict(characters))
        self._long = CharacterTable(characters)

    def __call__(self, text: str) -> str:
        if self._bytes is not None and text.isascii():
            # Bytes are translated twenty times as fast as characters.
            return text.encode().translate(self._bytes).decode()
        return self._long(text) if len(text) >= LONG else text.translate(self._characters)

    def lower(self, text: str) -> str:
        """Return the text in lower case, after the characters are replaced."""
        return self._long.lower(text) if len(text) >= LONG else text.translate(self._characters).lower()


_UNDISGUISE = Alphabet(_UNDISGUISED)


def normalise(text: str) -> str:
    """Return a text in lower case without disguise: NFKC, look-alike letters, invisible characters, blanks, spelled-out words.

    Accents go, German umlauts stay.

    >>> normalise("I\u200bgn\u043ere  \uff41ll")
    'ignore all'
    """
    lowered = text.lower() if text.isascii() else _undisguise(text)
    return _join_blanks(_join_spelled_out(lowered))


def _undisguise(text: str) -> str:
    for phrase in _PHRASES:
        text = text.replace(phrase, _PHRASE)
    decomposed = unicodedata.normalize("NFKD", break_mark_runs(text))
    return _join_umlauts(_UNDISGUISE.lower(decomposed))


# Normalising sorts the marks of a run by their class, by insertion: 20,000 marks in an unlucky order take 0.3 s, and a million
# would take minutes. UAX 15 names texts without runs of more than 30 stream-safe, and how to make them so.
_LONGEST_RUN = 30
_JOINER = "\u034f"
# Every mark is neither of a word nor a blank. This is fast for short texts.
_MAY_BE_RUN = re.compile(rf"[^\w\s]{{{_LONGEST_RUN + 1},}}+")


def break_mark_runs(text: str) -> str:
    """Return a text with a joiner, which is not drawn, after each 30 combining marks in a row."""
    if len(text) < LONG:
        return _MAY_BE_RUN.sub(lambda match: _break_short(match[0]), text)
    points = read_code_points(text)
    is_mark = _list_marks()[np.minimum(points, _AFTER_MARKS)]
    others = np.concatenate([[-1], np.flatnonzero(~is_mark), [len(points)]])
    runs = np.flatnonzero(np.diff(others) > _LONGEST_RUN + 1)
    if not len(runs):
        return text
    breaks = [np.arange(others[run] + 1 + _LONGEST_RUN, others[run + 1], _LONGEST_RUN) for run in runs]
    return join_code_points(np.insert(points, np.concatenate(breaks), ord(_JOINER)))


@functools.cache
def _list_marks() -> Mask:
    """Return for each code point whether it is a combining mark, up to the first plane that has none."""
    return np.array([unicodedata.combining(chr(point)) > 0 for point in range(_AFTER_MARKS + 1)])


def _break_short(run: str) -> str:
    characters, marks = [], 0
    for character in run:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks > _LONGEST_RUN:
            characters.append(_JOINER)
            marks = 1
        characters.append(character)
    return "".join(characters)


def fold_marks(text: str) -> str:
    """Return a normalised text without any marks on letters: rules are read so, too.

    >>> fold_marks("frühere")
    'fruhere'
    """
    return text if text.isascii() else _list_folds()(text)


@functools.cache
def _list_folds() -> Alphabet:
    """Return what `normalise` leaves: umlauts, strokes through letters, and the marks of other blocks."""
    marks = (chr(code) for code in range(_AFTER_MARKS) if unicodedata.category(chr(code)) in ("Mn", "Me"))
    return Alphabet(dict(zip("äöüøłđħŧƀɨɇƶɉꝑꞇ", "aouoldhtbiezjpt", strict=True)) | dict.fromkeys(marks, ""))


def _join_blanks(text: str) -> str:
    text = text.strip()
    # Of blanks only the space is printable. Most texts have single ones only: that is seen three times as fast as words are split.
    has_only_spaces = text.isprintable()
    if has_only_spaces and "  " not in text:
        return text
    # Other scripts are split three times as slowly as ASCII.
    if text.isascii() or not has_only_spaces:
        return " ".join(text.split())
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def _join_umlauts(text: str) -> str:
    # Composing all characters again takes up to ten times as long, and no rule has another one.
    if _DIAERESIS not in text:
        return text
    for letter, umlaut in _UMLAUTS.items():
        text = text.replace(letter, umlaut)
    return text.replace(_DIAERESIS, "")


def _join_spelled_out(text: str) -> str:
    if len(text) >= LONG:
        return join_spelled_out(text)
    may_be = len(_read_single_letters(text)) >= FEW_LETTERS
    return _SPELLED_OUT.sub(_join_letters, text) if may_be else text


def _read_single_letters(text: str) -> set[str]:
    if text.isascii():
        return {word for word in read_words(text) if len(word) == 1}
    return set(_SINGLE_LETTER.findall(text))


def read_words(text: str) -> set[str]:
    """Return the words of a text."""
    if text.isascii():
        return set(text.encode().translate(_WORDS_ONLY).decode().split())
    return set(_WORD.findall(text))


def _join_letters(match: re.Match[str]) -> str:
    return match[0][::2]


FORMAT = "crucible threshold 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdFile:
    """A chosen threshold and what it was chosen by."""

    threshold: float
    false_alarms: float
    """The false-alarm rate that it does not exceed, with 95 % confidence."""
    guard: str
    """The guard whose scores they were."""
    run: str
    n: int
    """Benign texts."""
    texts: tuple[str, ...]
    """A hash of each normalised text."""


def hash_text(text: str) -> str:
    """Return a hash of a text that is equal for texts that differ in case, blanks and disguise only."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


def write_threshold(path: Path, chosen: ThresholdFile) -> None:
    """Write the file. Raises OSError."""
    body: dict[str, Any] = {"format": FORMAT} | {
        name: getattr(chosen, name) for name in ThresholdFile.__dataclass_fields__
    }
    path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


def read_threshold(path: Path, place: str) -> ThresholdFile:
    """Return the threshold in a file; `place` names the guard's table. Raises SpecError."""
    advice = f"write one with `crucible guards threshold RUN --false-alarms 0.01 -o {path.name}`"
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{place}: the threshold {path} does not exist: {advice}") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{place}: the threshold {path} cannot be read: {error}") from None
    names = set(ThresholdFile.__dataclass_fields__)
    if not isinstance(body, dict) or body.get("format") != FORMAT or not names <= set(body):
        raise SpecError(f"{place}: {path} is not a file of `crucible guards threshold`: {advice}")
    return ThresholdFile(**{name: body[name] for name in names - {"texts"}}, texts=tuple(body["texts"]))


def find_used(chosen: ThresholdFile, samples: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the ids of the samples (id, text) whose texts chose the threshold."""
    texts = set(chosen.texts)
    return tuple(name for name, text in samples if hash_text(text) in texts)
