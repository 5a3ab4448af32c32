"""Telephone numbers of long texts: what `phones` decides number by number, numpy decides for all of them at once."""

from __future__ import annotations

from string import digits
from typing import NamedTuple

import numpy as np

from pytest_crucible.detectors.characters import Mask, list_signs, look_up
from pytest_crucible.detectors.long_numbers import find_form_places
from pytest_crucible.detectors.long_phone_candidates import find_candidates
from pytest_crucible.detectors.long_phone_shapes import Shapes, are_dates_or_decimals
from pytest_crucible.detectors.long_phone_words import have_names, have_other_names, have_places, read_phone_words
from pytest_crucible.detectors.phone_forms import CLEAR, CLEAR_INSIDE, FEWEST_DIGITS, MOST_DIGITS
from pytest_crucible.detectors.places import Places, read_places
from pytest_crucible.detectors.words import Indices, TextWords

_DIGITS, _POINTS = list_signs(digits), list_signs("-.")
_NORTH_AMERICAN = "415-555-0123"


class _Numbers(NamedTuple):
    """Candidates, in order of place."""

    starts: Indices
    ends: Indices
    has_form: Mask
    """Whether one may be in a form that only telephones have."""

    def list_places(self) -> Places:
        return np.stack([self.starts, self.ends], axis=1)


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
    has_digits = _have_digits(numbers, words)
    is_usual = has_digits & _are_north_american(numbers, words)
    shapes = Shapes(words.codes, numbers.starts, numbers.ends)
    is_clear = is_usual | shapes.match(CLEAR, has_digits & numbers.has_form & ~is_usual)
    is_number = _are_called(text, words, numbers, has_digits, is_clear)
    is_unusual = is_number & ~is_usual
    is_number[is_unusual] = ~are_dates_or_decimals(words.codes, numbers.starts[is_unusual], numbers.ends[is_unusual])
    inside = shapes.find(CLEAR_INSIDE, numbers.has_form & ~is_number)
    return np.concatenate([numbers.list_places()[is_number], inside])


def _are_called(text: str, words: TextWords, numbers: _Numbers, has_digits: Mask, is_clear: Mask) -> Mask:
    """Return which numbers the words around them leave telephones', if they are clear, and which they make telephones'."""
    starts, ends = numbers.starts, numbers.ends
    is_called = has_digits.copy()
    is_called[has_digits] = ~have_other_names(words, starts[has_digits])
    needs_name = is_called & ~is_clear
    if needs_name.any():
        is_called[needs_name] = have_names(text, words, starts[needs_name], ends[needs_name])
    return is_called


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
