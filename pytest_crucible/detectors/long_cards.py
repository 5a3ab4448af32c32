"""Numbers of long texts in the form of a payment card with its check digit, decided by numpy for all places at once."""

from __future__ import annotations

from string import ascii_letters, digits

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, Mask, count_in_row, list_signs, look_up, read_codes
from pytest_crucible.detectors.places import Places

Indices = NDArray[np.intp]
_DIGITS, _SEPARATORS, _POINTS = list_signs(digits), list_signs(" -"), list_signs("-.")
_WORD = list_signs(f"{ascii_letters}{digits}_")
_BEFORE = list_signs(f"{ascii_letters}{digits}_.+-")
_FEWEST, _MOST = 12, 19
# Zeros around the text, so that no place read is outside.
_PAD = 32


def find_card_places(text: str) -> tuple[Places, NDArray[np.intp]]:
    """Return the places that have the form and the check digit of a card, and the key of each: `read_issuer_key` reads it.

    They may overlap. The form is that of the patterns of `accounts`.
    """
    codes = np.pad(read_codes(text), _PAD)
    is_digit = look_up(codes, _DIGITS)
    begins = np.flatnonzero(is_digit[1:] & ~look_up(codes, _BEFORE)[:-1]) + 1
    in_row = count_in_row(is_digit)
    begins = begins[in_row[begins] >= 4]
    starts, ends = _find_ends(codes, is_digit, in_row, begins)
    if not len(starts):
        return np.zeros((0, 2), dtype=np.intp), starts
    before = np.append(0, np.cumsum(is_digit, dtype=np.intp))
    first, last = before[starts], before[ends]
    values = codes[is_digit] - np.uint8(ord("0"))
    passes = _pass_luhn(values, first, last)
    starts, ends, first, last = starts[passes], ends[passes], first[passes], last[passes]
    issuer = sum((10 ** (3 - k) * values[first + k].astype(np.intp) for k in range(4)), np.zeros_like(starts))
    return np.stack([starts, ends], axis=1) - _PAD, issuer * (_MOST + 1) + last - first


def read_issuer_key(key: int) -> str:
    """Return a number with the first four digits and the length that a key stands for; the other digits are zeros."""
    issuer, length = divmod(key, _MOST + 1)
    return f"{issuer:04}".ljust(length, "0")


def _find_ends(codes: Codes, is_digit: Mask, in_row: Codes, begins: Indices) -> tuple[Indices, Indices]:
    """Return where the numbers in the form of a card begin and end."""
    # Rows are counted up to 16 digits.
    count = in_row[begins].astype(np.intp)
    count += np.where(count == 16, in_row[begins + 16], 0)
    may_be = (count >= _FEWEST) & (count <= _MOST)
    whole, whole_ends = begins[may_be], (begins + count)[may_be]
    apart = begins[(count == 4) & look_up(codes[begins + 4], _SEPARATORS)]
    in_fours, four_ends = _find_fours(codes, is_digit, in_row, apart)
    sixes = apart[(in_row[apart + 5] == 6) & (codes[apart + 11] == codes[apart + 4])]
    six_ends = sixes + 12 + in_row[sixes + 12]
    is_six = (six_ends >= sixes + 16) & (six_ends <= sixes + 17)
    starts = np.concatenate([whole, in_fours, sixes[is_six]])
    ends = np.concatenate([whole_ends, four_ends, six_ends[is_six]])
    may_end = _may_end(codes, is_digit, ends)
    starts, ends = starts[may_end], ends[may_end]
    order = np.argsort(starts, kind="stable")
    return starts[order], ends[order]


def _find_fours(codes: Codes, is_digit: Mask, in_row: Codes, begins: Indices) -> tuple[Indices, Indices]:
    """Return the numbers in groups of four: three and one to four digits more, or four and three digits more."""
    sign = codes[begins + 4]
    is_card = (in_row[begins + 5] == 4) & (in_row[begins + 10] == 4)
    is_card &= (codes[begins + 9] == sign) & (codes[begins + 14] == sign)
    last = in_row[begins + 15]
    is_card &= (last >= 1) & (last <= 4)
    begins, sign, last = begins[is_card], sign[is_card], last[is_card]
    is_long = (last == 4) & (codes[begins + 19] == sign) & (in_row[begins + 20] == 3)
    is_long &= _may_end(codes, is_digit, begins + 23)
    return begins, np.where(is_long, begins + 23, begins + 15 + last)


def _may_end(codes: Codes, is_digit: Mask, ends: Indices) -> Mask:
    """Return whether no word or number goes on at each place."""
    following = codes[ends]
    may_end: Mask = ~(look_up(following, _WORD) | (look_up(following, _POINTS) & is_digit[ends + 1]))
    return may_end


def _pass_luhn(values: Codes, first: Indices, last: Indices) -> Mask:
    """Return which rows of digits, from the first to before the last, pass the check of `checksums.passes_luhn`."""
    doubled = 2 * values
    doubled -= np.where(values > 4, 9, 0).astype(np.uint8)
    is_even = np.arange(len(values)) % 2 == 0
    total = np.zeros(len(first), dtype=np.int32)
    # The digit before the last is doubled, and each second one before that.
    for parity, is_doubled in enumerate((is_even, ~is_even)):
        sums = np.append(np.int32(0), np.cumsum(np.where(is_doubled, doubled, values), dtype=np.int32))
        total += np.where(last % 2 == parity, sums[last] - sums[first], 0)
    passes: Mask = total % 10 == 0
    return passes
