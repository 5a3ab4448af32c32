"""E-mail addresses of long texts: what the patterns of `addresses` describe, decided by numpy for all at signs at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, list_signs, look_up, map_characters, read_code_points
from pytest_crucible.detectors.places import Places

Indices = NDArray[np.intp]
# Classes of characters in addresses.
_LETTER, _DIGIT, _UNDERSCORE, _SIGN, _QUOTE, _DASH, _DOT, _AT = range(1, 9)
_QUOTES, _OF_LABEL = (
    list_signs("".join(map(chr, kinds))) for kinds in ((_QUOTE, _DOT, _DASH), (_LETTER, _DIGIT, _UNDERSCORE, _DASH))
)
_MOST_BEFORE, _MOST_LABEL, _MOST_LABELS = 64, 63, 10
# Zeros around the text, as many as a part of an address is long, so that no place read is outside.
_PAD = 80


def _classify(characters: NDArray[np.str_]) -> Codes:
    """Return the class of each character: those of `[\\w.+%'&/=~!#$-]`, and the at sign; 0 for others."""
    signs = {"_": _UNDERSCORE, "+": _SIGN, ".": _DOT, "-": _DASH, "@": _AT} | dict.fromkeys("'!#$&/=~%", _QUOTE)
    codes = np.where(np.char.isalnum(characters), _LETTER, 0)
    codes[np.char.isdecimal(characters)] = _DIGIT
    for sign, code in signs.items():
        codes[characters == sign] = code
    return codes.astype(np.uint8)


_OF_ASCII = _classify(np.arange(128, dtype=np.uint32).view("<U1")).tobytes() + bytes(128)


def _read_classes(text: str) -> Codes:
    if text.isascii():
        return np.frombuffer(text.encode().translate(_OF_ASCII), dtype=np.uint8)
    return map_characters(read_code_points(text), _classify)


def find_email_places(text: str) -> tuple[Places, Places]:
    """Return e-mail addresses, and places that are one only if their top-level domain is, `xn--...`."""
    classes = np.pad(_read_classes(text), _PAD)
    at = np.flatnonzero(classes == _AT)
    ends, last = _find_domain(classes, at)
    has_domain = (ends > last) & (classes[at + 1] != _DASH)
    at, ends, last = at[has_domain], ends[has_domain], last[has_domain]
    starts = _find_local(classes, at)
    has_local = starts < at
    starts, ends, last = starts[has_local], ends[has_local], last[has_local]
    letters = np.append(0, np.cumsum(classes == _LETTER))
    length = ends - last
    is_word = (length >= 2) & (length <= 24) & (letters[ends] - letters[last] == length)
    places = np.stack([starts, ends], axis=1) - _PAD
    may_be = ~is_word & (classes[last + 2] == _DASH)
    return places[is_word], places[may_be]


def _find_local(classes: Codes, at: Indices) -> Indices:
    """Return where the part before each at sign begins, without quotation marks and slashes; the sign's place for none."""
    is_local = (classes > 0) & (classes < _AT)
    others = np.flatnonzero(~is_local)
    begins = np.maximum(others[np.searchsorted(others, at) - 1] + 1, at - _MOST_BEFORE)
    is_quote = look_up(classes, _QUOTES)
    first = np.append(np.flatnonzero(~is_quote), len(classes))
    begins = np.minimum(first[np.searchsorted(first, begins)], at)
    return np.where(is_quote[at - 1], at, begins)


def _find_domain(classes: Codes, at: Indices) -> tuple[Indices, Indices]:
    """Return where the domain behind each at sign ends, and where its last label begins; equal for none."""
    is_label = look_up(classes, _OF_LABEL)
    others = np.flatnonzero(~is_label)
    last = at + 1
    ends = last.copy()
    label_ends = others[np.searchsorted(others, last)]
    active = np.flatnonzero((label_ends > last) & (label_ends - last <= _MOST_LABEL))
    at_dot = label_ends[active]
    for _ in range(_MOST_LABELS):
        begins = at_dot + 1
        label_ends = np.minimum(others[np.searchsorted(others, begins)], begins + _MOST_LABEL)
        goes_on = (classes[at_dot] == _DOT) & (label_ends > begins)
        active, begins, at_dot = active[goes_on], begins[goes_on], label_ends[goes_on]
        last[active], ends[active] = begins, at_dot
        if not len(active):
            break
    return ends, np.where(ends > at + 1, last, ends)
