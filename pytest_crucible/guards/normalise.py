"""The forms in which a text is read, so that disguised words are found: normalised, without leetspeak, and decoded.

A form is text without places: what a rule finds in it cannot be traced to characters of the original.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

DEPTH = 2
"""How often what was decoded is decoded again: base64 of rot13 is found, and a text cannot unfold without end."""
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
_UNDISGUISED_TABLE = str.maketrans(_UNDISGUISED)
# More than these are replaced at once.
_FEW_DISGUISES = 32
_SPELLED_OUT = re.compile(r"(?<!\w)\w(?:[ .*_-]\w(?!\w)){2,}")
# Words of one letter in any text: "a" and "I", and perhaps a name.
_FEW_LETTERS = 3
_WORD = re.compile(r"\w+")
_WORDS_ONLY = bytes(code if chr(code).isalnum() or chr(code) == "_" else 32 for code in range(128)) + bytes(
    range(128, 256)
)
_LEET_SIGNS = "0134578@$"
# The sign comes first in the pattern: there are fewer signs than letters, and a search stops at each.
_LEET = re.compile(r"[0134578@$](?:(?<=[a-z].)|(?=[a-z]))")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}+={0,2}")
# The first digit of an ASCII character is 2 to 7.
_HEX = re.compile(r"[2-7][0-9a-fA-F](?:[ :,]?[0-9a-fA-F]{2}){7,}+|\\x[2-7][0-9a-fA-F](?:\\x[0-9a-fA-F]{2}){7,}+")
_NOT_HEX = (" ", ":", ",", "\\x")
_SHORTEST_BASE64 = 16
# Of a text that was encoded, most characters are printable. Random bytes are seldom valid UTF-8 to begin with.
_PRINTABLE_SHARE = 0.9


class Form(NamedTuple):
    """A text in lower case, and its words."""

    text: str
    words: set[str]
    longest: int = 0
    """Characters of the longest part without a blank."""


class _Alphabet:
    """Replaces single letters by others."""

    def __init__(self, letters: str, others: str) -> None:
        self._bytes = bytes.maketrans(letters.encode(), others.encode())
        self._characters = str.maketrans(letters, others)

    def __call__(self, text: str) -> str:
        # Bytes are translated twenty times as fast as characters.
        return text.encode().translate(self._bytes).decode() if text.isascii() else text.translate(self._characters)


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROTATE = _Alphabet(_LETTERS, _LETTERS[13:] + _LETTERS[:13])
_UNDO_LEET, _UNDO_LEET_WITH_L = _Alphabet(_LEET_SIGNS, "oieastbas"), _Alphabet(_LEET_SIGNS, "oleastbas")


def read_forms(text: str, depth: int = DEPTH) -> Iterator[Form]:
    """Yield the forms of a text: normalised, without leetspeak, rotated, and decoded."""
    normal = normalise(text)
    yield normal
    if any(sign in normal.text for sign in _LEET_SIGNS) and _LEET.search(normal.text):
        yield _form(_UNDO_LEET(normal.text.replace("11", "ll")))
        if "1" in normal.text:
            yield _form(_UNDO_LEET_WITH_L(normal.text))
    if depth:
        yield Form(rotate(normal.text), set(rotate(" ".join(normal.words)).split()))
        decoded = [_decode_base64(text)] if normal.longest >= _SHORTEST_BASE64 else []
        for inner in (*decoded, _decode_hex(text)):
            if inner:
                yield from read_forms(inner, depth - 1)


def rotate(text: str) -> str:
    """Return a text in lower case with the 13 letters after each of its own (rot13).

    >>> rotate("vtaber nyy")
    'ignore all'
    """
    return _ROTATE(text)


def normalise(text: str) -> Form:
    """Return a text in lower case without disguise: NFKC, look-alike letters, invisible characters, blanks, spelled-out words.

    Accents go, umlauts stay.

    >>> normalise("I\u200bgn\u043ere  \uff41ll").text
    'ignore all'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _undisguise(unicodedata.normalize("NFKD", text)))
    form = _form(text.lower())
    if sum(len(word) == 1 for word in form.words) >= _FEW_LETTERS:
        form = _form(_SPELLED_OUT.sub(_join_letters, form.text))
    parts = form.text.split()
    return Form(" ".join(parts), form.words, max(map(len, parts), default=0))


def _undisguise(text: str) -> str:
    disguised = set(text) & _UNDISGUISED.keys()
    if len(disguised) > _FEW_DISGUISES:
        return text.translate(_UNDISGUISED_TABLE)
    # Replacing one character takes a hundredth of the time of translating all; what replaces one is none of them.
    for character in disguised:
        text = text.replace(character, _UNDISGUISED[character])
    return text


def _form(text: str) -> Form:
    if text.isascii():
        return Form(text, set(text.encode().translate(_WORDS_ONLY).decode().split()))
    return Form(text, set(_WORD.findall(text)))


def _join_letters(match: re.Match[str]) -> str:
    return match[0][::2]


# What all tokens say is one form: a text of thousands of tokens would have as many.


def _decode_base64(text: str) -> str:
    return "\n".join(_readable(_from_base64(match[0])) for match in _BASE64.finditer(text)).strip()


def _decode_hex(text: str) -> str:
    found = (bytes.fromhex(_only_hex(match[0])) for match in _HEX.finditer(text))
    return "\n".join(map(_readable, found)).strip()


def _only_hex(token: str) -> str:
    for sign in _NOT_HEX:
        token = token.replace(sign, "")
    return token


def _from_base64(token: str) -> bytes:
    body = token.rstrip("=").replace("-", "+").replace("_", "/")
    # A token may have lost its padding; one letter too many cannot be decoded.
    body = body[: len(body) - (len(body) % 4 == 1)]
    return base64.b64decode(body + "=" * (-len(body) % 4))


def _readable(data: bytes) -> str:
    """Return what bytes say, if they are a text, and else nothing."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    # Of most texts all characters are printable; looking at each takes a hundred times as long.
    is_text = text.isprintable() or sum(map(str.isprintable, text)) + text.count("\n") >= _PRINTABLE_SHARE * len(text)
    return text if is_text else ""
