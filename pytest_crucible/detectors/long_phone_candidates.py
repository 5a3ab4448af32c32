"""Numbers of long texts that may be telephones': what the pattern `phone_forms.CANDIDATE` matches, by numpy for all places at once.

The pattern never gives back what it has read, so that each place has one possible end, which is read group by group.
"""

from __future__ import annotations

from string import ascii_letters, digits

import numpy as np

from pytest_crucible.detectors.characters import (
    Mask,
    count_in_row,
    list_signs,
    look_up,
    read_code_points,
    read_codes,
)
from pytest_crucible.detectors.places import Places, select_apart
from pytest_crucible.detectors.words import Indices

_WORD = f"{ascii_letters}{digits}_"
_DIGITS, _SEPARATORS, _FIRST = list_signs(digits), list_signs(" .-/"), list_signs(f"+({digits}")
_BEFORE, _BEHIND = list_signs(f"{_WORD}$£#/=+-"), list_signs(f"{_WORD}%")
_POINTS_BEFORE, _POINTS_BEHIND, _SUMS = list_signs(".,:"), list_signs(".,"), list_signs("=*+")
_EURO = "€"
_MOST_FIRST, _MOST_OF_GROUP, _MOST_GROUPS, _MOST_IN_PARENTHESES = 15, 9, 6, 5
# Zeros around the text, so that no place read is outside.
_PAD = 8
_BLANK, _POINT, _OPEN, _CLOSE, _PLUS, _E, _X, _T = map(ord, " .()+ext")


class _Text:
    """A text's codes, and what is read of them from many places."""

    def __init__(self, text: str) -> None:
        self.codes = np.pad(read_codes(text), _PAD)
        self.is_digit, self.is_separator = look_up(self.codes, _DIGITS), look_up(self.codes, _SEPARATORS)
        self.in_row = count_in_row(self.is_digit)

    def find_starts(self, text: str) -> Indices:
        """Return where a number may begin, by the two characters before and the three behind."""
        begin, end = _PAD, _PAD + len(text)
        codes, is_digit = self.codes, self.is_digit
        may_begin = look_up(codes, _FIRST)[begin:end]
        is_before = look_up(codes, _BEFORE)
        if _EURO in text:
            is_before = is_before | np.pad(read_code_points(text) == ord(_EURO), _PAD)
        may_begin = may_begin & ~is_before[begin - 1 : end - 1]
        may_begin &= ~(is_digit[begin - 2 : end - 2] & look_up(codes, _POINTS_BEFORE)[begin - 1 : end - 1])
        # One digit between signs; the last of a text has no sign behind it.
        is_single = (
            self.is_separator[begin + 1 : end + 1] & is_digit[begin + 2 : end + 2] & ~is_digit[begin + 3 : end + 3]
        )
        is_single[-3:] = False
        return np.flatnonzero(may_begin & ~is_single) + begin

    def skip_sign(self, starts: Indices) -> Indices:
        """Return where the first digit of each number is, or another character where there is none."""
        is_plus, is_open = self.codes[starts] == _PLUS, self.codes[starts] == _OPEN
        firsts = starts + (is_plus | is_open)
        digits: Indices = firsts + (is_plus & (self.codes[firsts] == _OPEN))
        return digits

    def read_groups(self, ends: Indices) -> Indices:
        """Return where up to six groups of digits behind each place end; the same place where none follows."""
        # Numbers that begin in one row of groups share the ends of these: each is read once.
        following = np.zeros(len(self.codes), dtype=np.intp)
        unread = ends
        for _ in range(_MOST_GROUPS):
            following[unread] = behind = self._read_group(unread)
            unread = behind[following[behind] == 0]
            if not len(unread):
                break
        for _ in range(_MOST_GROUPS):
            ends = following[ends]
        return ends

    def _read_group(self, ends: Indices) -> Indices:
        """Return where the next group of digits ends; the same place where none follows."""
        is_separated = self.is_separator[ends]
        count = self.in_row[ends + 1]
        behind = np.where(is_separated & (count >= 2), ends + 1 + np.minimum(count, _MOST_OF_GROUP), ends)
        following = self.codes[ends + is_separated]
        is_open, is_close = following == _OPEN, ~is_separated & (following == _CLOSE)
        rest = np.flatnonzero(is_open | is_close)
        if len(rest):
            behind[rest] = self._read_parenthesis(ends[rest], (ends + is_separated)[rest], is_open[rest])
        return behind

    def _read_parenthesis(self, ends: Indices, signs: Indices, is_open: Mask) -> Indices:
        """Return where the digits behind `(030)` or `)` end. `signs` are the places of the first parenthesis."""
        count = np.where(is_open, self.in_row[signs + 1], 0)
        closing = signs + np.where(is_open, 1 + np.minimum(count, _MOST_IN_PARENTHESES), 0)
        is_whole = (self.codes[closing] == _CLOSE) & (~is_open | (count > 0))
        digits = closing + 1 + self.is_separator[closing + 1]
        digit_count = self.in_row[digits]
        is_whole &= digit_count >= np.where(is_open, 1, 2)
        return np.where(is_whole, digits + np.minimum(digit_count, _MOST_OF_GROUP), ends)

    def may_end(self, ends: Indices) -> Mask:
        """Return whether no word, number or sum goes on at each place."""
        following, second = self.codes[ends], self.codes[ends + 1]
        goes_on = look_up(following, _BEHIND) | look_up(following, _SUMS)
        goes_on |= look_up(following, _POINTS_BEHIND) & self.is_digit[ends + 1]
        may_end: Mask = ~(goes_on | ((following == _BLANK) & look_up(second, _SUMS)))
        return may_end

    def read_extension(self, ends: Indices) -> Indices:
        """Return where an extension such as `x17` or ` ext. 17` ends; the same place where none follows."""
        signs = ends + (self.codes[ends] == _BLANK)
        is_x = self.codes[signs] == _X
        # Most numbers have none.
        rest = np.flatnonzero(is_x | (self.codes[signs] == _E))
        behind = ends.copy()
        if len(rest):
            behind[rest] = self._read_extension(ends[rest], signs[rest], is_x[rest])
        return behind

    def _read_extension(self, ends: Indices, signs: Indices, is_x: Mask) -> Indices:
        is_word = (self.codes[signs + 1] == _X) & (self.codes[signs + 2] == _T)
        digits = signs + 3
        digits += self.codes[digits] == _POINT
        digits += self.codes[digits] == _BLANK
        digits = np.where(is_x, signs + 1, digits)
        count = self.in_row[digits]
        behind = digits + np.minimum(count, _MOST_IN_PARENTHESES)
        is_whole = (is_x | is_word) & (count > 0) & self.may_end(behind)
        return np.where(is_whole, behind, ends)


def find_candidates(text: str) -> Places:
    """Return the places of all matches of `phone_forms.CANDIDATE`."""
    around = _Text(text)
    starts = around.find_starts(text)
    firsts = around.skip_sign(starts)
    has_digit = around.is_digit[firsts]
    starts, firsts = starts[has_digit], firsts[has_digit]
    ends = firsts + np.minimum(around.in_row[firsts], _MOST_FIRST)
    ends = around.read_groups(ends)
    is_number = around.is_digit[ends - 1] & around.is_digit[ends - 2]
    starts, ends = starts[is_number], around.read_extension(ends[is_number])
    may_end = around.may_end(ends)
    places = np.stack([starts[may_end], ends[may_end]], axis=1) - _PAD
    return select_apart(places)
