"""IP addresses of long texts: what the patterns of `addresses` describe, decided by numpy for all places at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from string import ascii_letters, digits, hexdigits

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, Mask, list_signs, look_up, read_codes
from pytest_crucible.detectors.places import Places

Indices = NDArray[np.intp]
_DIGITS, _ASCII_WORD = list_signs(digits), list_signs(f"{ascii_letters}{digits}_")
_ALPHANUMERIC = list_signs(ascii_letters + digits)
_HEX, _GROUPS = list_signs(hexdigits), 8
MOST_OF_SIX = 45
"""Characters of an IPv6 address that ends in an IPv4 address."""
_SIX, _ENDS_OF_VERSION = list_signs(hexdigits + ":."), list_signs("vVnNrReEpP.\n")
# Zeros around the text, so that no place read is outside.
_PAD = 8
_NONE = np.zeros((0, 2), dtype=np.intp)


def find_four_places(text: str, has_address_word: Callable[[], bool]) -> tuple[Places, Places]:
    """Return IPv4 addresses, each number without a zero before it and at most 255, and those that words decide about.

    These begin with zero, have one digit in each place, or stand behind a point, a line, or one of the letters v, n, r, e and p.
    """
    codes = np.pad(read_codes(text), _PAD)
    is_digit, is_word = look_up(codes, _DIGITS), look_up(codes, _ASCII_WORD)
    dots = np.flatnonzero(codes == ord("."))
    if len(dots) < 3:
        return _NONE, _NONE
    others = np.flatnonzero(~is_digit)
    first = np.searchsorted(others, dots[:-2])
    # Most dots have no number before them that begins there.
    before = others[first - 1]
    first = first[_is_octet(codes, before + 1, dots[:-2]) & ~is_word[before] & (codes[before] != ord("."))]
    # Only digits are between the dots, and behind them.
    corners = [others[first + k] for k in range(-1, 4)]
    before, after = corners[0], corners[-1]
    is_four = (codes[corners[2]] == ord(".")) & (codes[corners[3]] == ord(".")) & ~is_word[after]
    for begin, end in pairwise(corners):
        is_four &= _is_octet(codes, begin + 1, end)
    is_four &= ~((codes[after] == ord(".")) & is_digit[after + 1])
    places = np.stack([before + 1, after], axis=1)[is_four]
    is_section = _are_like_sections(codes, places)
    if is_section.any() and not has_address_word():
        places, is_section = places[~is_section], is_section[~is_section]
    is_unsure = is_section | _may_be_versions(codes, places)
    return places[~is_unsure] - _PAD, places[is_unsure] - _PAD


def _are_like_sections(codes: Codes, places: Places) -> Mask:
    """Return which numbers are addresses only beside a word that says so."""
    begins, ends = places.T
    are_like: Mask = (codes[begins] == ord("0")) | (ends - begins == len("1.1.1.1"))
    return are_like


def _may_be_versions(codes: Codes, places: Places) -> Mask:
    begins = places[:, 0]
    # One blank may be between the word and the number.
    return look_up(codes[begins - 1 - (codes[begins - 1] == ord(" "))], _ENDS_OF_VERSION)


def _is_octet(codes: Codes, begins: Indices, ends: Indices) -> Mask:
    """Return whether digits are a number up to 255 without a zero before it."""
    length = ends - begins
    digit = [codes[begins + k].astype(np.intp) - ord("0") for k in range(3)]
    value = np.select(
        [length == 1, length == 2, length == 3],
        [digit[0], 10 * digit[0] + digit[1], 100 * digit[0] + 10 * digit[1] + digit[2]],
        256,
    )
    is_octet: Mask = (value <= 255) & ((length == 1) | (digit[0] > 0))
    return is_octet


def find_six_places(text: str) -> Places:
    """Return IPv6 addresses: runs of their characters between others, perhaps with the points that end a sentence.

    A short address has a digit, and three digits of one group or three groups, since code has pairs of colons, too.
    """
    codes = np.pad(read_codes(text), _PAD)
    is_colon = codes == ord(":")
    if not (is_colon[:-1] & is_colon[1:]).any() and np.count_nonzero(is_colon) < _GROUPS - 2:
        return _NONE
    is_part = look_up(codes, _SIX)
    changes = np.flatnonzero(is_part[1:] != is_part[:-1]) + 1
    runs = changes.reshape(-1, 2)
    colons, doubles = _count(is_colon, runs), _count(is_colon[:-1] & is_colon[1:], runs, 2)
    may_be = (_count(look_up(codes, _DIGITS), runs) > 0) & ((doubles > 0) | (colons >= _GROUPS - 2))
    may_be &= np.diff(runs)[:, 0] <= MOST_OF_SIX
    runs = _drop_last_points(codes, runs[may_be])
    # The ends of words of other scripts are left to be looked at.
    runs = runs[~look_up(codes[runs[:, 0] - 1], _ASCII_WORD) & ~look_up(codes[runs[:, 1]], _ALPHANUMERIC)]
    return runs[_are_six(codes, is_colon, runs)] - _PAD


def _drop_last_points(codes: Codes, runs: Places) -> Places:
    """Return the runs without the points that end a sentence."""
    others = np.flatnonzero(codes != ord("."))
    last = others[np.searchsorted(others, runs[:, 1]) - 1]
    return np.stack([runs[:, 0], last + 1], axis=1)


def _are_six(codes: Codes, is_colon: Mask, runs: Places) -> Mask:
    """Return which runs of hexadecimal digits, colons and points are addresses."""
    begins, last = runs[:, 0], runs[:, 1] - 1
    is_double, is_hex = is_colon[:-1] & is_colon[1:], look_up(codes, _HEX)
    colons, doubles = _count(is_colon, runs), _count(is_double, runs, 2)
    groups = _count(is_hex[1:] & ~is_hex[:-1], runs - 1)
    threes = _count(is_hex[:-2] & is_hex[1:-1] & is_hex[2:], runs, 3)
    fives = _count(np.logical_and.reduce([is_hex[k : len(is_hex) - 4 + k] for k in range(5)]), runs, 5)
    points = _count(codes == ord("."), runs)
    # An IPv4 address at the end stands for two groups, and its four numbers are counted as four.
    ends_in_four = np.zeros(len(runs), dtype=bool)
    ends_in_four[points == 3] = _end_in_four(codes, is_colon, runs[points == 3])
    is_whole = (doubles == 0) & (colons == _GROUPS - 1 - ends_in_four) & (groups - 2 * ends_in_four == _GROUPS)
    is_short = (
        (doubles == 1)
        & (groups - 2 * ends_in_four < _GROUPS)
        & (is_hex[begins] | is_double[begins])
        & (is_hex[last] | is_double[last - 1])
    )
    is_like_six = (threes > 0) | (groups - 3 * ends_in_four >= 3)
    is_six: Mask = (is_whole | is_short) & (fives == 0) & is_like_six & ((points == 0) | ends_in_four)
    return is_six


def _end_in_four(codes: Codes, is_colon: Mask, runs: Places) -> Mask:
    """Return which runs with three points have an IPv4 address behind their last colon."""
    colons, points = np.flatnonzero(is_colon), np.flatnonzero(codes == ord("."))
    first = np.searchsorted(points, runs[:, 0])
    corners = [colons[np.searchsorted(colons, runs[:, 1]) - 1], *(points[first + k] for k in range(3)), runs[:, 1]]
    is_digit = look_up(codes, _DIGITS)
    count = _count(is_digit, np.stack([corners[0], corners[-1]], axis=1))
    ends_in_four: Mask = count == corners[-1] - corners[0] - len(corners) + 1
    for begin, end in pairwise(corners):
        ends_in_four &= _is_octet(codes, begin + 1, end)
    return ends_in_four


def _count(mask: Mask, runs: Places, width: int = 1) -> NDArray[np.int32]:
    """Return how many places each run has at which a part of this width begins."""
    before = np.append(np.int32(0), np.cumsum(mask, dtype=np.int32))
    count: NDArray[np.int32] = before[np.maximum(runs[:, 1] - width + 1, runs[:, 0])] - before[runs[:, 0]]
    return count
