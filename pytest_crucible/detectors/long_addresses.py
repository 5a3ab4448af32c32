"""E-mail and IP addresses of long texts: what the patterns of `addresses` describe, decided by numpy for all places at once."""

from __future__ import annotations

from string import ascii_letters, digits, hexdigits

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import (
    Codes,
    Mask,
    list_signs,
    look_up,
    map_characters,
    read_code_points,
    read_codes,
)
from pytest_crucible.detectors.places import Places

Indices = NDArray[np.intp]
_DIGITS, _ASCII_WORD = list_signs(digits), list_signs(f"{ascii_letters}{digits}_")
_SIX, _ENDS_OF_VERSION = list_signs(hexdigits + ":."), list_signs("vVnNrReEpP.\n")
# Classes of characters in e-mail addresses.
_LETTER, _DIGIT, _UNDERSCORE, _SIGN, _QUOTE, _DASH, _DOT, _AT = range(1, 9)
_MOST_BEFORE, _MOST_LABEL, _MOST_LABELS = 64, 63, 10
_PAD = 80
_NONE = np.zeros((0, 2), dtype=np.intp)


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
    starts, ends, last = _find_local(classes, at), *_find_domain(classes, at)
    is_address = (starts < at) & (ends > last) & (classes[at + 1] != _DASH)
    starts, ends, last = starts[is_address], ends[is_address], last[is_address]
    letters = np.append(0, np.cumsum(classes == _LETTER))
    length = ends - last
    is_word = (length >= 2) & (length <= 24) & (letters[ends] - letters[last] == length)
    places = np.stack([starts, ends], axis=1) - _PAD
    may_be = ~is_word & (classes[np.minimum(last + 2, len(classes) - 1)] == _DASH)
    return places[is_word], places[may_be]


def _find_local(classes: Codes, at: Indices) -> Indices:
    """Return where the part before each at sign begins, without quotation marks and slashes; the sign's place for none."""
    is_local = (classes > 0) & (classes < _AT)
    others = np.flatnonzero(~is_local)
    begins = np.maximum(others[np.searchsorted(others, at) - 1] + 1, at - _MOST_BEFORE)
    is_quote = is_local & np.isin(classes, [_QUOTE, _DOT, _DASH])
    first = np.append(np.flatnonzero(~is_quote), len(classes))
    begins = np.minimum(first[np.searchsorted(first, begins)], at)
    return np.where(is_quote[at - 1], at, begins)


def _find_domain(classes: Codes, at: Indices) -> tuple[Indices, Indices]:
    """Return where the domain behind each at sign ends, and where its last label begins; equal for none."""
    is_label = np.isin(classes, [_LETTER, _DIGIT, _UNDERSCORE, _DASH])
    others = np.flatnonzero(~is_label)
    last = at + 1
    ends = last.copy()
    label_ends = others[np.searchsorted(others, last)]
    active = np.flatnonzero((label_ends > last) & (label_ends - last <= _MOST_LABEL))
    at_dot = label_ends[active]
    for _ in range(_MOST_LABELS):
        begins = at_dot + 1
        label_ends = np.minimum(
            others[np.minimum(np.searchsorted(others, begins), len(others) - 1)], begins + _MOST_LABEL
        )
        goes_on = (classes[at_dot] == _DOT) & (label_ends > begins)
        active, begins, at_dot = active[goes_on], begins[goes_on], label_ends[goes_on]
        last[active], ends[active] = begins, at_dot
        if not len(active):
            break
    return ends, np.where(ends > at + 1, last, ends)


def find_four_places(text: str) -> tuple[Places, Places]:
    """Return IPv4 addresses, each number without a zero before it and at most 255, and those that words may make another number.

    These begin with zero, have one digit in each place, or stand behind a point, a line, or one of the letters v, n, r, e and p.
    """
    codes = np.pad(read_codes(text), _PAD)
    is_digit, is_word = look_up(codes, _DIGITS), look_up(codes, _ASCII_WORD)
    dots = np.flatnonzero(codes == ord("."))
    if len(dots) < 3:
        return _NONE, _NONE
    first, second, third = dots[:-2], dots[1:-1], dots[2:]
    others = np.flatnonzero(~is_digit)
    before = others[np.searchsorted(others, first) - 1]
    after = others[np.searchsorted(others, third, side="right")]
    next_to = np.searchsorted(others, first)
    # Only digits are between the dots.
    is_four = (others[np.minimum(next_to + 1, len(others) - 1)] == second) & (
        others[np.minimum(next_to + 2, len(others) - 1)] == third
    )
    for begin, end in ((before, first), (first, second), (second, third), (third, after)):
        is_four &= _is_octet(codes, begin + 1, end)
    is_four &= ~is_word[before] & (codes[before] != ord(".")) & ~is_word[after]
    is_four &= ~((codes[after] == ord(".")) & is_digit[np.minimum(after + 1, len(codes) - 1)])
    begins, ends = before[is_four] + 1, after[is_four]
    # One blank may be between.
    behind = begins - 1 - (codes[begins - 1] == ord(" "))
    is_unsure = (
        (codes[begins] == ord("0")) | (ends - begins == len("1.1.1.1")) | look_up(codes[behind], _ENDS_OF_VERSION)
    )
    places = np.stack([begins, ends], axis=1) - _PAD
    return places[~is_unsure], places[is_unsure]


def _is_octet(codes: Codes, begins: Indices, ends: Indices) -> Mask:
    """Return whether digits are a number up to 255 without a zero before it."""
    length = ends - begins
    digit = [codes[np.minimum(begins + k, len(codes) - 1)].astype(np.intp) - ord("0") for k in range(3)]
    value = np.select(
        [length == 1, length == 2, length == 3],
        [digit[0], 10 * digit[0] + digit[1], 100 * digit[0] + 10 * digit[1] + digit[2]],
        256,
    )
    return (value <= 255) & ((length == 1) | (digit[0] > 0))


def find_six_runs(text: str) -> Places:
    """Return runs of hexadecimal digits, colons and points with two colons in a row, or seven at all, and a digit."""
    codes = np.pad(read_codes(text), 1)
    is_six, is_colon = look_up(codes, _SIX), codes == ord(":")
    pairs = np.append(0, np.cumsum(is_colon[:-1] & is_colon[1:]))
    if not pairs[-1] and np.count_nonzero(is_colon) < 7:
        return _NONE
    changes = np.flatnonzero(is_six[1:] != is_six[:-1]) + 1
    begins, ends = changes[::2], changes[1::2]
    colons, numbers = np.append(0, np.cumsum(is_colon)), np.append(0, np.cumsum(look_up(codes, _DIGITS)))
    has_colons = (pairs[ends - 1] > pairs[begins]) | (colons[ends] - colons[begins] >= 7)
    may_be = has_colons & (numbers[ends] > numbers[begins])
    return np.stack([begins, ends], axis=1)[may_be] - 1
