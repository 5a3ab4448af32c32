"""Telephone numbers of long texts: what `phones` decides number by number, numpy decides for all of them at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import digits
from typing import NamedTuple

import numpy as np

from pytest_crucible.detectors.characters import Mask, list_signs, look_up
from pytest_crucible.detectors.long_numbers import find_form_places
from pytest_crucible.detectors.long_phone_candidates import find_candidates
from pytest_crucible.detectors.long_phone_words import have_names, have_other_names, have_places, read_phone_words
from pytest_crucible.detectors.phone_forms import (
    CLEAR_INSIDE,
    CLEAR_PHONE,
    FEWEST_DIGITS,
    MOST_DIGITS,
    NO_PHONE,
)
from pytest_crucible.detectors.places import Place, Places, read_places
from pytest_crucible.detectors.words import Indices, TextWords

_DIGITS, _POINTS, _SIGNS_OF_DATE = list_signs(digits), list_signs("-."), list_signs("-./ ")
_NORTH_AMERICAN = "415-555-0123"
# `1.2.2012`, `12.12.2012`, `2012-12-12`
_PLACES_OF_SIGN = (1, 2, 4)


class _Numbers(NamedTuple):
    """Candidates, in order of place."""

    starts: Indices
    ends: Indices
    has_form: Mask
    """Whether one may be in a form that only telephones have."""

    def select(self, mask: Mask) -> _Numbers:
        return _Numbers(self.starts[mask], self.ends[mask], self.has_form[mask])

    def list_places(self) -> Places:
        return np.stack([self.starts, self.ends], axis=1)

    def read(self, text: str) -> list[str]:
        return [text[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


def find_long_phones(text: str) -> Places:
    """Return the telephone numbers of a long text, as `phones.find_phones` does those of a short one."""
    forms = find_form_places(text)
    # Without letters there are no words that name a number.
    if not len(forms) and text.lower() == text.upper():
        return read_places([])
    numbers = _find_candidates(text, forms)
    if not len(numbers.starts):
        return numbers.list_places()
    words = read_phone_words(text)
    numbers = _close(numbers, words)
    is_phone = _have_digits(numbers, words)
    is_phone[is_phone] = ~have_other_names(words, numbers.starts[is_phone])
    is_clear = is_phone & _are_north_american(numbers, words)
    is_clear |= _match(CLEAR_PHONE, text, numbers, is_phone & numbers.has_form & ~is_clear)
    is_named = is_phone & ~is_clear
    if is_named.any():
        is_named[is_named] = have_names(text, words, numbers.starts[is_named], numbers.ends[is_named])
    may_be_date = is_named & _may_be_no_phone(numbers, words)
    is_phone = is_clear | (is_named & ~_match(NO_PHONE, text, numbers, may_be_date))
    inside = _find_inside(text, numbers.select(numbers.has_form & ~is_phone))
    return np.concatenate([numbers.select(is_phone).list_places(), read_places(inside)])


def _find_candidates(text: str, forms: Indices) -> _Numbers:
    places = find_candidates(text)
    starts, ends = places[places[:, 1] - places[:, 0] >= FEWEST_DIGITS].T
    return _Numbers(starts, ends, have_places(forms, starts, ends))


def _close(numbers: _Numbers, words: TextWords) -> _Numbers:
    """Return the numbers without a parenthesis that only opens: of `(call 415-555-0123` it is not part."""
    is_open = words.codes[numbers.starts] == ord("(")
    closing = np.flatnonzero(words.codes == ord(")"))
    is_open[is_open] = ~have_places(closing, numbers.starts[is_open], numbers.ends[is_open])
    return numbers._replace(starts=numbers.starts + is_open)


def _have_digits(numbers: _Numbers, words: TextWords) -> Mask:
    """Return which numbers have as many digits as a telephone's, without those of an extension."""
    before = np.concatenate([[0], np.cumsum(look_up(words.codes, _DIGITS), dtype=np.int32)])
    ends = np.minimum(numbers.ends, words.find_next(numbers.starts))
    count = before[ends] - before[numbers.starts]
    are_enough: Mask = (count >= FEWEST_DIGITS) & (count <= MOST_DIGITS)
    return are_enough


def _are_north_american(numbers: _Numbers, words: TextWords) -> Mask:
    """Return which numbers are as 415-555-0123 or 415.555.0123: most are, and no pattern is needed for these."""
    is_digit = look_up(words.codes, _DIGITS)
    codes, starts = words.codes, numbers.starts
    are_digits = [is_digit[starts + k] for k, sign in enumerate(_NORTH_AMERICAN) if sign != "-"]
    is_apart = (codes[starts + 3] == codes[starts + 7]) & look_up(codes[starts + 3], _POINTS)
    first = codes[starts] >= ord("2")
    are_all: Mask = np.logical_and.reduce([numbers.ends - starts == len(_NORTH_AMERICAN), is_apart, first, *are_digits])
    return are_all


def _may_be_no_phone(numbers: _Numbers, words: TextWords) -> Mask:
    """Return which numbers have a sign where a date has one, or a point: looking at each by the pattern takes longer."""
    is_sign = look_up(words.codes, _SIGNS_OF_DATE)
    has_sign: Mask = np.logical_or.reduce([is_sign[numbers.starts + k] for k in _PLACES_OF_SIGN])
    return has_sign | have_places(np.flatnonzero(words.codes == ord(".")), numbers.starts, numbers.ends)


def _match(pattern: re.Pattern[str], text: str, numbers: _Numbers, mask: Mask) -> Mask:
    """Return which of the numbers that the mask has are matched by a pattern. Equal ones are looked at once."""
    texts = numbers.select(mask).read(text)
    matches = {number: pattern.fullmatch(number) is not None for number in {*texts}}
    is_match = mask.copy()
    is_match[mask] = np.fromiter(map(matches.__getitem__, texts), dtype=bool, count=len(texts))
    return is_match


def _find_inside(text: str, numbers: _Numbers) -> Iterator[Place]:
    """Yield the telephone numbers among several in a row."""
    for start, number in zip(numbers.starts.tolist(), numbers.read(text), strict=True):
        for inside in CLEAR_INSIDE.finditer(number):
            yield start + inside.start(), start + inside.end()
