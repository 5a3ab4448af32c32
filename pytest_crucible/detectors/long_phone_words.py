"""The words around the numbers of a long text, looked up for all numbers at once: what `phone_words` decides for each."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors import phone_words
from pytest_crucible.detectors.characters import Mask, list_signs, look_up
from pytest_crucible.detectors.phone_words import NEAREST, REACH, REACH_AFTER, WORD_AFTER
from pytest_crucible.detectors.words import OTHER_LETTER, Indices, TextWords, Vocabulary

_OTHERS, _PHONE, _PREPOSITION, _BEFORE_PREPOSITION, _PLACE, _AFTER, _MAY_BE_AFTER = (1 << k for k in range(7))
_BLANKS, _BETWEEN = list_signs(" \t\n\v\f\r\x1c\x1d\x1e\x1f"), list_signs(" \t\n\v\f\r\x1c\x1d\x1e\x1f,;(-")
_IN_WORDS = list_signs("0123456789_")
# Signs between a number and a word after it.
_MOST_BETWEEN = 3


@functools.cache
def _load_vocabulary() -> Vocabulary:
    return Vocabulary(
        {
            _OTHERS: phone_words.OTHER_NUMBERS,
            _PHONE: phone_words.PHONE_WORDS,
            _PREPOSITION: phone_words.PREPOSITIONS,
            _BEFORE_PREPOSITION: phone_words.WORDS_BEFORE_PREPOSITION,
            _PLACE: phone_words.PLACES,
            _AFTER: [word for word in phone_words.WORDS_AFTER if word.isascii()],
            _MAY_BE_AFTER: [phone_words.BEFORE_VERB],
        }
    )


def read_phone_words(text: str) -> TextWords:
    """Return the words of a text, of which those that say what a number is have flags."""
    return TextWords(text, _load_vocabulary())


def have_places(places: Indices, starts: Indices, ends: Indices) -> Mask:
    """Return whether one of the places, which are in order, is between each start and its end."""
    if not len(places):
        return np.zeros(len(starts), dtype=bool)
    between: Mask = np.searchsorted(places, starts) < np.searchsorted(places, ends)
    return between


def have_other_names(words: TextWords, starts: Indices) -> Mask:
    """Return whether a word next to each number makes it another one than a telephone's."""
    is_other: Mask = np.bitwise_or.reduce(_read_before(words, starts).nearest, axis=0) & _OTHERS > 0
    return is_other


def have_names(text: str, words: TextWords, starts: Indices, ends: Indices) -> Mask:
    """Return whether a word before or after each number makes it a telephone's."""
    is_named = _are_called(words, _read_before(words, starts), starts)
    is_named[~is_named] = _have_word_after(text, words, ends[~is_named])
    return is_named


class _Before(NamedTuple):
    """The words before each number, within reach."""

    first: Indices
    """Where the reach begins."""
    cut: NDArray[np.uint8]
    """Flags of the rest of a word that begins before."""
    last: Indices
    """The number of the last word; -1 before the first of the text."""
    nearest: NDArray[np.uint8]
    """Flags of the words next to the number, the last one first. shape (3, numbers)."""


def _read_before(words: TextWords, starts: Indices) -> _Before:
    first = np.maximum(starts - REACH, 0)
    last = words.find_last(starts)
    cut_word = words.find_last(first)
    is_cut = (cut_word >= 0) & (words.ends[cut_word] > first)
    cut = np.zeros(len(starts), dtype=np.uint8)
    cut[is_cut] = words.read_flags(first[is_cut], words.ends[cut_word[is_cut]])
    nearest = np.zeros((NEAREST, len(starts)), dtype=np.uint8)
    for k in range(NEAREST):
        number = last - k
        is_whole = number > cut_word
        nearest[k] = np.where(
            is_whole, words.flags[np.maximum(number, 0)], np.where(is_cut & (number == cut_word), cut, 0)
        )
    return _Before(first, cut, last, nearest)


def _are_called(words: TextWords, before: _Before, starts: Indices) -> Mask:
    """Return whether the words before a number, on its line or in a heading above, say that it is a telephone's."""
    codes, first = words.codes, before.first
    # The last sign before the number that is not a blank ends its label.
    label = _find_before(np.flatnonzero(~look_up(codes, _BLANKS)), starts)
    newlines = np.flatnonzero(codes == ord("\n"))
    is_heading = codes[label] == ord(":")
    has_label = (label >= first) & (is_heading | (_find_before(newlines, starts) < label))
    line = _find_before(newlines, label)
    # Without a word on the label's line those of the lines above count.
    is_on_line = (line >= first) & (before.last >= 0) & (words.starts[before.last] > line)
    begins = np.where(is_on_line, line + 1, first)
    cut, last = np.where(is_on_line, 0, before.cut), before.nearest[0]
    is_phone = have_places(words.find(_PHONE), begins, starts) | (cut & _PHONE > 0)
    is_before = have_places(words.find(_BEFORE_PREPOSITION), begins, starts) | (cut & _BEFORE_PREPOSITION > 0)
    called: Mask = has_label & (is_phone | (is_heading & (last & _PLACE > 0)) | (is_before & (last & _PREPOSITION > 0)))
    return called


def _find_before(places: Indices, starts: Indices) -> Indices:
    """Return the last place before each start; -1 before the first. The places are in order."""
    with_none = np.concatenate([[-1], places])
    found: Indices = with_none[np.searchsorted(places, starts)]
    return found


def _have_word_after(text: str, words: TextWords, ends: Indices) -> Mask:
    """Return whether a word after each number says that it is a telephone's."""
    number = words.find_last(ends) + 1
    begins, finishes = words.starts[number], words.ends[number]
    gap = begins - ends
    is_next = (gap >= 1) & (gap <= _MOST_BETWEEN) & ~look_up(words.codes[finishes], _IN_WORDS)
    for k in range(_MOST_BETWEEN):
        is_next &= (gap <= k) | look_up(words.codes[np.minimum(ends + k, len(words.codes) - 1)], _BETWEEN)
    flags = words.flags[number]
    is_after = is_next & (flags & _AFTER > 0)
    # Letters of other scripts may be equal to one of these when case is ignored, but for the first; and one of the words is two.
    is_unsure = is_next & ~is_after & (flags & _MAY_BE_AFTER > 0)
    others = np.flatnonzero(words.codes == OTHER_LETTER)
    is_unsure |= is_next & (words.codes[begins] != OTHER_LETTER) & have_places(others, begins, finishes)
    for k in np.flatnonzero(is_unsure).tolist():
        is_after[k] = WORD_AFTER.match(text[ends[k] : ends[k] + REACH_AFTER]) is not None
    return is_after
