"""Places of long texts where a number may stand: what the patterns of `accounts` require first, looked for by numpy."""

from __future__ import annotations

from string import ascii_letters, digits

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, Mask, list_signs, look_up, read_codes

_DIGITS, _SEPARATORS = list_signs(digits), list_signs(" -")
_FORM_SEPARATORS, _POINTS, _OPENING = list_signs(" .-"), list_signs(".-"), list_signs("+(")
_IN_WORDS = list_signs(f"{ascii_letters}{digits}_")
_BEFORE_NUMBER = list_signs(f"{ascii_letters}{digits}_.+-")
# The farthest that a condition reads from a place.
_REACH = 16


class _Around:
    """The characters at a distance from each place of a text."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self.codes = np.pad(read_codes(text), _REACH)
        self._masks: dict[bytes, Mask] = {}

    def at(self, distance: int) -> Codes:
        """Return the character so far behind each place; 0 outside the text."""
        return self.codes[_REACH + distance :][: self._length]

    def has(self, table: bytes, *distances: int) -> Mask:
        """Return the places that have a character of the table at each of the distances."""
        mask = self._masks.get(table)
        if mask is None:
            mask = self._masks[table] = look_up(self.codes, table)
        first, *others = [mask[_REACH + distance :][: self._length] for distance in distances]
        places = first.copy()
        for other in others:
            places &= other
        return places


def find_security_numbers(text: str) -> NDArray[np.intp]:
    """Return the places of US social security numbers: what the pattern of `accounts` describes. shape (n, 2)"""
    around = _Around(text)
    is_number = around.has(_SEPARATORS, 0) & around.has(_DIGITS, -3, -2, -1, 1, 2, 4, 5, 6, 7)
    is_number &= (around.at(0) == around.at(3)) & ~around.has(_BEFORE_NUMBER, -4) & ~around.has(_IN_WORDS, 8)
    is_number &= ~(around.has(_POINTS, 8) & around.has(_DIGITS, 9))
    places = np.flatnonzero(is_number)
    area, group, serial = (_read_number(around, places, *at) for at in ((-3, -2, -1), (1, 2), (4, 5, 6, 7)))
    is_issued = (area > 0) & (area != 666) & (area < 900) & (group > 0) & (serial > 0)
    numbers: NDArray[np.intp] = np.stack([places - 3, places + 8], axis=1)[is_issued]
    return numbers


def _read_number(around: _Around, places: NDArray[np.intp], *distances: int) -> NDArray[np.intp]:
    """Return, for each place, the number whose digits are at these distances from it."""
    number = np.zeros_like(places)
    for distance in distances:
        number = 10 * number + around.codes[_REACH + places + distance] - ord("0")
    return number


def find_form_places(text: str) -> NDArray[np.intp]:
    """Return where a plus, a parenthesis, or the zero or the middle of one of the forms of `phones` stands."""
    around = _Around(text)
    is_zero = around.at(0) == ord("0")
    in_twos = around.has(_DIGITS, 1, 3, 4, 6, 7, 9, 10, 12, 13) & around.has(_FORM_SEPARATORS, 2, 5, 8, 11)
    is_abroad = (around.at(1) == ord("0")) & around.has(_DIGITS, 2) & (around.at(2) != ord("0"))
    # After the code of a country, of one digit or two.
    is_abroad &= around.has(_FORM_SEPARATORS, 3) | around.has(_DIGITS, 3)
    is_middle = around.has(_POINTS, 0, 4) & around.has(_DIGITS, -3, -2, -1, 1, 2, 3, 5, 6, 7, 8)
    return np.flatnonzero(around.has(_OPENING, 0) | (is_zero & (in_twos | is_abroad)) | is_middle)
