"""Digits, signs and blanks of any width as those of ASCII, with the places of the text as it is."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import replace

from pytest_crucible.records.detections import Span

_BLANKS = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63"
# Full stops of other scripts end a sentence: they are no part of an address before them.
_DOTS, _AT = "\u2024\ufe52", "\ufe6b"
# Characters that are not drawn stand between those that are.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


def find_in_any_width(find: Callable[[str], Iterable[Span]], text: str) -> list[Span]:
    """Return what is found in a text whose digits, letters, signs and blanks may be of any width.

    >>> find_in_any_width(lambda text: [Span("AT", text.index("@"), text.index("@") + 1)], "a\uff20b")
    [Span(type='AT', start=1, end=2)]
    """
    if text.isascii():
        return list(find(text))
    folded = text.translate(_list_widths())
    if not _INVISIBLE.search(folded):
        return list(find(folded))
    places = [place for place, character in enumerate(folded) if not _INVISIBLE.match(character)]
    spans = find("".join(folded[place] for place in places))
    return [replace(span, start=places[span.start], end=places[span.end - 1] + 1) for span in spans]


@functools.cache
def _list_widths() -> dict[int, str]:
    """Return the character of ASCII for each that is one of another width, a blank, a dash, or a decimal digit of any script."""
    full = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    decimals = {
        code: str(value) for code in range(128, 0x20000) if (value := unicodedata.decimal(chr(code), None)) is not None
    }
    signs = {" ": _BLANKS, "-": _DASHES, ".": _DOTS, "@": _AT}
    return full | decimals | {ord(other): sign for sign, others in signs.items() for other in others}
