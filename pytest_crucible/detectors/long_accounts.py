"""IBANs of long texts: form and check digits of all at once."""

from __future__ import annotations

from string import ascii_letters, digits

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, Mask, list_signs, look_up, read_codes
from pytest_crucible.detectors.places import Places

Indices = NDArray[np.intp]
_DIGITS, _LETTERS, _SEPARATORS = list_signs(digits), list_signs(ascii_letters), list_signs(" -")
_ALPHANUMERIC = list_signs(ascii_letters + digits)
_GROUP, _LONGEST, _MODULUS = 4, 33, 97
# Zeros around the text, longer than an account, so that no place read is outside.
_PAD = 48
# A letter stands for 10 to 35; a digit of what it stands for moves the number before by a place.
_VALUES = np.array([int(chr(code), 36) if chr(code).isascii() and chr(code).isalnum() else 0 for code in range(256)])
_FACTORS = np.where(_VALUES < 10, 10, 100)
# So many characters before 64 bits are full: each one adds two digits at most.
_MOST_AT_ONCE = 8


def find_account_places(text: str, lengths: NDArray[np.uint8]) -> Places:
    """Return the IBANs of a text, whatever character that is not ASCII stands behind them. They may overlap.

    `lengths` are those of accounts by the codes of both letters; 0 for others. shape (256, 256).
    """
    codes = np.pad(read_codes(text), _PAD)
    is_letter, is_digit = look_up(codes, _LETTERS), look_up(codes, _DIGITS)
    begins = is_letter[1:-3] & is_letter[2:-2] & is_digit[3:-1] & is_digit[4:]
    # Most texts have neither.
    starts = np.flatnonzero(begins & ~look_up(codes, _ALPHANUMERIC)[:-4]) + 1 if begins.any() else np.zeros(0, np.intp)
    length = lengths[codes[starts], codes[starts + 1]].astype(np.intp)
    is_apart = look_up(codes[starts + _GROUP], _SEPARATORS)
    ends = starts + length + np.where(is_apart, (length - 1) // _GROUP, 0)
    is_whole = (length > 0) & ~look_up(codes[ends], _ALPHANUMERIC)
    # Of words that begin like an account, most do not go on so.
    is_whole &= look_up(codes[starts + _GROUP + is_apart], _ALPHANUMERIC) & look_up(codes[ends - 1], _ALPHANUMERIC)
    starts, length, is_apart, ends = starts[is_whole], length[is_whole], is_apart[is_whole], ends[is_whole]
    passes = _pass_mod97(codes, starts, length, is_apart)
    places: Places = np.stack([starts, ends], axis=1)[passes] - _PAD
    return places


def _pass_mod97(codes: Codes, starts: Indices, length: Indices, is_apart: Mask) -> Mask:
    """Return which accounts have letters and digits in all places, one sign between all groups, and the check digits."""
    passes = np.ones(len(starts), dtype=bool)
    remainder = np.zeros(len(starts), dtype=np.int64)
    sign = codes[starts + _GROUP]
    # The first group comes last. Accounts end at different places, and therefore begin at different steps.
    for step in range(-_LONGEST, 0):
        place = length + step + _GROUP
        is_in = place >= _GROUP
        place = np.where(place < length, place, place - length)
        at = starts + np.where(is_in, place + np.where(is_apart, place // _GROUP, 0), 0)
        code = codes[at]
        passes &= ~is_in | look_up(code, _ALPHANUMERIC)
        is_first = is_in & is_apart & (place % _GROUP == 0) & (place > 0)
        passes &= ~is_first | (codes[at - 1] == sign)
        remainder = np.where(is_in, remainder * _FACTORS[code] + _VALUES[code], remainder)
        if step % _MOST_AT_ONCE == 0:
            remainder %= _MODULUS
    passes &= remainder % _MODULUS == 1
    return passes
