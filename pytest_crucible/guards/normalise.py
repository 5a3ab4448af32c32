"""The forms in which a text is read, so that disguised words are found: normalised, without leetspeak, and decoded.

A form is text without places: what a rule finds in it cannot be traced to characters of the original.
"""

from __future__ import annotations

import binascii
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from string import ascii_letters, ascii_lowercase, digits, hexdigits

from pytest_crucible.guards.characters import LONG
from pytest_crucible.guards.long_texts import FEW_LETTERS, CharacterTable, has_any, has_pair, has_run, join_spelled_out
from pytest_crucible.guards.mark_runs import break_mark_runs

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
# Two characters that stand for phrases of 18 and 8 letters, which no rule has, are read as one of 4: no other has more than 6.
_PHRASES, _PHRASE = "\ufdfa\ufdfb", "\ufdf2"
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
_LEET_SIGNS = "0134578@$"
# The sign comes first in the pattern: there are fewer signs than letters, and a search stops at each.
_LEET = re.compile(r"[0134578@$](?:(?<=[a-z].)|(?=[a-z]))")
# Of both encodings: eight bytes in hex, twelve in base64.
_SHORTEST = 16
_BASE64_SIGNS, _HEX_SIGNS = f"{ascii_letters}{digits}+/", f"{hexdigits} :,\\x"
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,}+")
# The first digit of an ASCII character is 2 to 7. Looking at sixteen characters first saves most attempts.
_HEX = re.compile(r"[2-7](?=[0-9a-fA-F][0-9a-fA-F :,]{14})[0-9a-fA-F](?:[ :,]?[0-9a-fA-F]{2}){7,}+")
_HEX_OR_ESCAPED = re.compile(rf"{_HEX.pattern}|\\x[2-7][0-9a-fA-F](?:\\x[0-9a-fA-F]{{2}}){{7,}}+")
_NOT_HEX = (":", ",", "\\x")
# A byte that begins a character of several before one that does not go on with it, or the reverse.
_NO_UTF8 = re.compile(rb"[\xc0-\xff][^\x80-\xbf]|(?:^|[\x00-\x7f])[\x80-\xbf]")
# Of a text that was encoded, most characters are printable. Random bytes are seldom valid UTF-8 to begin with.
_PRINTABLE_SHARE = 0.9
_FEW_BYTES = 12


class _Alphabet:
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


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROTATE = _Alphabet(dict(zip(_LETTERS, _LETTERS[13:] + _LETTERS[:13], strict=True)))
_UNDO_LEET = _Alphabet(dict(zip(_LEET_SIGNS, "oieastbas", strict=True)))
_UNDO_LEET_WITH_L = _Alphabet(dict(zip(_LEET_SIGNS, "oleastbas", strict=True)))
_UNDISGUISE = _Alphabet(_UNDISGUISED)


def read_forms(text: str, depth: int = DEPTH) -> Iterator[str]:
    """Yield the forms of a text in lower case: normalised, without leetspeak, rotated, and decoded."""
    normal = normalise(text)
    yield normal
    if any(sign in normal for sign in _LEET_SIGNS) and _has_leet(normal):
        yield _UNDO_LEET(normal.replace("11", "ll"))
        if "1" in normal:
            yield _UNDO_LEET_WITH_L(normal)
    if depth:
        yield rotate(normal)
        for inner in (_decode_base64(text), _decode_hex(text)):
            if inner:
                yield from read_forms(inner, depth - 1)


def _has_leet(text: str) -> bool:
    return has_pair(text, _LEET_SIGNS, ascii_lowercase) if len(text) >= LONG else _LEET.search(text) is not None


def rotate(text: str) -> str:
    """Return a text in lower case with the 13 letters after each of its own (rot13).

    >>> rotate("vtaber nyy")
    'ignore all'
    """
    has_letters = text.isascii() or len(text) < LONG or has_any(text, ascii_lowercase)
    return _ROTATE(text) if has_letters else text


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


# What all tokens say is one form: a text of thousands of tokens would have as many. Equal tokens are decoded once.


def _decode_base64(text: str) -> str:
    text = text.replace("-", "+").replace("_", "/")
    if len(text) >= LONG and not has_run(text, _BASE64_SIGNS, _SHORTEST):
        return ""
    tokens, heads = dict.fromkeys(_BASE64.findall(text)), _list_heads()
    return "\n".join(_readable(_from_base64(token)) for token in tokens if token[:2] in heads).strip()


@functools.cache
def _list_heads() -> frozenset[str]:
    """Return the first two characters, in base64, of all texts in UTF-8."""
    heads = map("".join, itertools.product(_BASE64_SIGNS, repeat=2))
    return frozenset(head for head in heads if not _NO_UTF8.search(_from_base64(f"{head}AA")[:2]))


def _from_base64(token: str) -> bytes:
    # The padding is missing here; one letter too many cannot be decoded.
    return binascii.a2b_base64((token[:-1] if len(token) % 4 == 1 else token) + "==")


def _decode_hex(text: str) -> str:
    if len(text) >= LONG and not has_run(text, _HEX_SIGNS, _SHORTEST):
        return ""
    tokens = dict.fromkeys((_HEX_OR_ESCAPED if "\\x" in text else _HEX).findall(text))
    return "\n".join(_readable(bytes.fromhex(_only_hex(token))) for token in tokens).strip()


def _only_hex(token: str) -> str:
    for sign in _NOT_HEX:
        token = token.replace(sign, "")
    return token


def _readable(data: bytes) -> str:
    """Return the text that bytes encode; empty if they are not a text."""
    # Of random bytes the first few say so, in half the time of an error.
    if not data.isascii() and _NO_UTF8.search(data, 0, _FEW_BYTES):
        return ""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    # Of most texts all characters are printable; looking at each takes a hundred times as long.
    is_text = text.isprintable() or sum(map(str.isprintable, text)) + text.count("\n") >= _PRINTABLE_SHARE * len(text)
    return text if is_text else ""
