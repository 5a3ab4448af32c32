"""The forms in which a text is read, so that disguised words are found: normalised, without markup, parted, decoded.

A form is text without places: what a rule finds in it cannot be traced to characters of the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase

from pytest_crucible.guards.characters import LONG
from pytest_crucible.guards.decoding import decode
from pytest_crucible.guards.long_texts import has_any, has_pair
from pytest_crucible.guards.markup import read_references, strip_markup
from pytest_crucible.guards.normalise import Alphabet, fold_marks, normalise
from pytest_crucible.guards.spelling import part_words

DEPTH = 2
"""How often what was decoded is decoded again: base64 of rot13 is found, and a text cannot unfold without end."""
_LEET_SIGNS = "0134578@$"
# The sign comes first in the pattern: there are fewer signs than letters, and a search stops at each.
_LEET = re.compile(r"[0134578@$](?:(?<=[a-z].)|(?=[a-z]))")
_ROTATE = Alphabet(dict(zip(ascii_lowercase, ascii_lowercase[13:] + ascii_lowercase[:13], strict=True)))
_UNDO_LEET = Alphabet(dict(zip(_LEET_SIGNS, "oieastbas", strict=True)))
_UNDO_LEET_WITH_L = Alphabet(dict(zip(_LEET_SIGNS, "oleastbas", strict=True)))


def read_forms(text: str, words: frozenset[str] = frozenset(), depth: int = DEPTH) -> Iterator[str]:
    """Yield the forms of a text in lower case. `words` are those that letters without blanks between them are parted into."""
    normal = normalise(text)
    folded = fold_marks(normal)
    yield folded
    marked = _read_plain(text, normal)
    plain = fold_marks(marked)
    if plain != folded:
        yield plain
    parted = part_words(plain, words)
    if parted != plain:
        yield parted
    if any(sign in plain for sign in _LEET_SIGNS) and _has_leet(plain):
        yield _UNDO_LEET(plain.replace("11", "ll"))
        if "1" in plain:
            yield _UNDO_LEET_WITH_L(plain)
    if depth:
        # Rotating leaves umlauts as they are.
        yield fold_marks(rotate(marked))
        for inner in decode(text):
            if inner:
                yield from read_forms(inner, words, depth - 1)


def _read_plain(text: str, normal: str) -> str:
    """Return a text in its normal form without markup, and with its references read."""
    read = read_references(text)
    return strip_markup(normal if read == text else normalise(read))


def _has_leet(text: str) -> bool:
    return has_pair(text, _LEET_SIGNS, ascii_lowercase) if len(text) >= LONG else _LEET.search(text) is not None


def rotate(text: str) -> str:
    """Return a text in lower case with the 13 letters after each of its own (rot13).

    >>> rotate("vtaber nyy")
    'ignore all'
    """
    has_letters = text.isascii() or len(text) < LONG or has_any(text, ascii_lowercase)
    return _ROTATE(text) if has_letters else text
