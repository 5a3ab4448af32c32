"""Shapes of the numbers of a long text: numbers of one shape are in the same forms, so that a pattern looks at one of each."""

from __future__ import annotations

import functools
import re
from string import digits

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pytest_crucible.detectors.characters import Codes, Mask, list_signs, look_up
from pytest_crucible.detectors.long_phone_words import have_places
from pytest_crucible.detectors.places import Place, Places, read_places
from pytest_crucible.detectors.words import Indices

_DIGITS, _LOW, _SIGNS_OF_DATE = list_signs(digits), list_signs("01"), list_signs("-./ ")
# Stands for every digit from 2 on, and for each one that may be any digit.
_ANY = "4"
_AS_ANY = bytes.maketrans(digits.encode(), _ANY.encode() * len(digits))
# `001212-555-0123`: the patterns of `phone_forms` tell 0, 1 and the others apart in the first four digits of a row,
# and in these only behind zeros and ones.
_MOST_LOW = 4
_TENS_OF_MONTH, _TENS_OF_DAY = list_signs("01"), list_signs("0123")


def read_shape_codes(codes: Codes) -> Codes:
    """Return the codes of a text with one digit for all that the patterns of clear forms do not tell apart.

    >>> bytes(read_shape_codes(np.frombuffer(b"+49 (0)30 901820", dtype=np.uint8)))
    b'+44 (0)44 444444'
    """
    is_low = np.append(look_up(codes, _LOW), False)
    places = np.flatnonzero(is_low[:-1] & ~np.append(False, look_up(codes, _DIGITS)[:-1]))
    shapes = np.frombuffer(bytearray(codes.tobytes().translate(_AS_ANY)), dtype=np.uint8)
    for _ in range(_MOST_LOW):
        shapes[places] = codes[places]
        places = places[is_low[places + 1]] + 1
    return shapes


class Shapes:
    """The shapes of numbers in a text."""

    def __init__(self, codes: Codes, starts: Indices, ends: Indices) -> None:
        """`codes` are those of the text in lower case; all of a number's are ASCII."""
        self._codes, self._starts, self._ends = codes, starts, ends

    @functools.cached_property
    def _shape_codes(self) -> Codes:
        # Most texts have no number that is looked at.
        return read_shape_codes(self._codes)

    def _read(self, mask: Mask) -> list[str]:
        starts, lengths = self._starts[mask], (self._ends - self._starts)[mask]
        shapes = np.empty(len(starts), dtype=object)
        # Numbers of one length are rows of a table, of which numpy makes texts five times as fast as slices are.
        for length in np.unique(lengths).tolist():
            has_length = lengths == length
            rows = sliding_window_view(self._shape_codes, length)[starts[has_length]]
            shapes[has_length] = rows.astype(np.uint32).view(f"<U{length}")[:, 0]
        read: list[str] = shapes.tolist()
        return read

    def match(self, pattern: re.Pattern[str], mask: Mask) -> Mask:
        """Return which of the numbers that the mask has are matched by a pattern."""
        is_match = mask.copy()
        if mask.any():
            shapes = self._read(mask)
            matches = {shape: pattern.fullmatch(shape) is not None for shape in {*shapes}}
            is_match[mask] = np.fromiter(map(matches.__getitem__, shapes), dtype=bool, count=len(shapes))
        return is_match

    def find(self, pattern: re.Pattern[str], mask: Mask) -> Places:
        """Return the places of all matches of a pattern in each of the numbers that the mask has."""
        if not mask.any():
            return read_places([])
        shapes = self._read(mask)
        # The places in all shapes, those of each in a row.
        places: list[Place] = []
        rows: dict[str, Place] = {}
        for shape in {*shapes}:
            begin = len(places)
            places += (match.span() for match in pattern.finditer(shape))
            rows[shape] = (begin, len(places))
        first, last = read_places(map(rows.__getitem__, shapes)).T
        count = last - first
        # The number of each place within its row.
        order = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        found: Places = read_places(places)[np.repeat(first, count) + order]
        return found + np.repeat(self._starts[mask], count)[:, None]


def are_dates_or_decimals(codes: Codes, starts: Indices, ends: Indices) -> Mask:
    """Return which numbers `phone_forms.NO_PHONE` matches. Sixteen more codes follow the text's."""
    is_other = np.zeros(len(starts), dtype=bool)
    has_point = have_places(np.flatnonzero(codes == ord(".")), starts, ends)
    if has_point.any():
        is_other[has_point] = _are_decimals(codes, starts[has_point], ends[has_point])
    return is_other | _are_dates(codes, starts, ends)


def _are_decimals(codes: Codes, starts: Indices, ends: Indices) -> Mask:
    """Return which numbers, each with a point, have no other sign. Two more codes of signs follow the text's."""
    signs = np.flatnonzero(~look_up(codes, _DIGITS))
    first = np.searchsorted(signs, starts)
    are_decimals: Mask = (codes[signs[first]] == ord(".")) & (signs[first + 1] >= ends)
    return are_decimals


def _are_dates(codes: Codes, starts: Indices, ends: Indices) -> Mask:
    """Return which numbers `phone_forms.DATE` matches: three with equal signs between, of which the first or last is a year."""
    behind_year = starts + 4
    middle, has_middle = _skip_number(codes, behind_year + 1, _TENS_OF_MONTH)
    # 2012-12-31
    are_dates: Mask = _begin_years(codes, starts) & look_up(codes[behind_year], _SIGNS_OF_DATE) & has_middle
    are_dates &= (codes[behind_year] == codes[middle]) & _are_digits(codes[middle + 1]) & (middle + 1 < ends)
    # 31.12.2012
    first, has_first = _skip_number(codes, starts, _TENS_OF_DAY)
    second, has_second = _skip_number(codes, first + 1, _TENS_OF_DAY)
    has_numbers = has_first & has_second & (codes[first] == codes[second])
    are_dates |= has_numbers & _begin_years(codes, second + 1) & (second + 4 < ends)
    return are_dates


def _skip_number(codes: Codes, places: Indices, tens: bytes) -> tuple[Indices, Mask]:
    """Return where the signs behind numbers of one digit or two stand, and which of the places have these."""
    is_one = _are_digits(codes[places]) & look_up(codes[places + 1], _SIGNS_OF_DATE)
    is_two = look_up(codes[places], tens) & _are_digits(codes[places + 1]) & look_up(codes[places + 2], _SIGNS_OF_DATE)
    return places + 1 + is_two, is_one | is_two


def _are_digits(codes: Codes) -> Mask:
    return look_up(codes, _DIGITS)


def _begin_years(codes: Codes, places: Indices) -> Mask:
    """Return where the digits of a year in 1900 to 2099 stand."""
    first, second = codes[places], codes[places + 1]
    is_century = ((first == ord("1")) & (second == ord("9"))) | ((first == ord("2")) & (second == ord("0")))
    begin: Mask = is_century & _are_digits(codes[places + 2]) & _are_digits(codes[places + 3])
    return begin
