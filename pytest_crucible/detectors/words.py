"""Words of long texts as arrays: which words of a vocabulary stand where."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, list_signs, look_up, map_characters, read_code_points

Indices = NDArray[np.intp]
Flags = NDArray[np.uint8]
# Of characters that are not ASCII: a letter, a part of a word that is not a letter, and any other.
OTHER_LETTER, _WORD_SIGN, _OTHER_SIGN = 0x80, ord("_"), 0x7F
_LETTERS = list_signs("abcdefghijklmnopqrstuvwxyz" + chr(OTHER_LETTER))
# Of other scripts: an ASCII letter in lower case, and one that is a letter and a mark.
_KELVIN, _TURKISH = "\u212a", "\u0130"
_WIDTH = 8


def read_lowered(text: str) -> Codes:
    """Return a text in lower case, a code for each character: of a letter, blank or sign that is not ASCII only that it is one."""
    if text.isascii():
        return np.frombuffer(text.encode().lower(), dtype=np.uint8)
    return map_characters(read_code_points(text), _lower)


def _lower(characters: NDArray[np.str_]) -> Codes:
    points = characters.view(np.uint32)
    is_ascii, is_space, is_decimal, is_letter = (
        points < 128, np.char.isspace(characters), np.char.isdecimal(characters), np.char.isalnum(characters),
    )  # fmt: skip
    ascii_codes = np.frombuffer(np.where(is_ascii, points, 0).astype(np.uint8).tobytes().lower(), dtype=np.uint8)
    codes = np.select(
        [is_ascii, characters == _KELVIN, characters == _TURKISH, is_space, is_decimal, is_letter],
        [ascii_codes.astype(np.intp), ord("k"), ord("i"), ord(" "), _WORD_SIGN, OTHER_LETTER],
        _OTHER_SIGN,
    )
    return codes.astype(np.uint8)


class Vocabulary:
    """Words of ASCII letters, two to sixteen, each with flags."""

    def __init__(self, words: Mapping[int, Collection[str]]) -> None:
        """`words` are those of each flag, a power of two below 256."""
        flags: dict[str, int] = {}
        for flag, named in words.items():
            for word in named:
                flags[word] = flags.get(word, 0) | flag
        codes = np.frombuffer("".join(flags).encode() + bytes(2 * _WIDTH), dtype=np.uint8)
        ends = np.cumsum([len(word) for word in flags])
        starts = ends - [len(word) for word in flags]
        heads, tails = _pack(codes, starts, ends), _pack(codes, starts + _WIDTH, ends)
        self._heads, self._tails = np.unique(heads), np.unique(tails)
        self._flags = np.zeros((len(self._heads), len(self._tails)), dtype=np.uint8)
        self._flags[np.searchsorted(self._heads, heads), np.searchsorted(self._tails, tails)] = list(flags.values())
        self._pairs = np.zeros(256 * 256, dtype=bool)
        self._pairs[_pair(codes, starts)] = True

    def read_flags(self, codes: Codes, starts: Indices, ends: Indices) -> Flags:
        """Return the flags of words between these places; 0 for other words. Sixteen more codes follow the text's."""
        flags = np.zeros(len(starts), dtype=np.uint8)
        possible = np.flatnonzero(self._pairs[_pair(codes, starts)] & (ends - starts <= 2 * _WIDTH))
        starts, ends = starts[possible], ends[possible]
        head = _pack(codes, starts, ends)
        is_known, rows = _find(self._heads, head)
        possible, starts, ends, rows = possible[is_known], starts[is_known], ends[is_known], rows[is_known]
        is_known, columns = _find(self._tails, _pack(codes, starts + _WIDTH, ends))
        flags[possible[is_known]] = self._flags[rows[is_known], columns[is_known]]
        return flags


def _pair(codes: Codes, starts: Indices) -> Indices:
    pairs: Indices = codes[starts].astype(np.intp) * 256 + codes[starts + 1]
    return pairs


def _pack(codes: Codes, starts: Indices, ends: Indices) -> NDArray[np.uint64]:
    """Return the first eight characters of each word as a number."""
    numbers = np.zeros(len(starts), dtype=np.uint64)
    for k in range(_WIDTH):
        at = starts + k
        numbers <<= np.uint64(8)
        numbers |= np.where(at < ends, codes[np.minimum(at, len(codes) - 1)], 0).astype(np.uint64)
    return numbers


def _find(known: NDArray[np.uint64], numbers: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], Indices]:
    """Return which numbers are known, and their places among the known."""
    places = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return known[places] == numbers, places


class TextWords:
    """The words of a long text with their flags."""

    def __init__(self, text: str, vocabulary: Vocabulary) -> None:
        self.codes = np.concatenate([read_lowered(text), np.zeros(2 * _WIDTH, dtype=np.uint8)])
        is_letter = look_up(self.codes, _LETTERS)
        changes = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
        changes = np.concatenate([[0], changes]) if is_letter[0] else changes
        # Behind the text stands a word of no letters, so that there is always a next one.
        behind = len(self.codes) - _WIDTH
        self.starts, self.ends = np.append(changes[::2], behind), np.append(changes[1::2], behind)
        self._vocabulary = vocabulary
        self.flags = self.read_flags(self.starts, self.ends)

    def read_flags(self, starts: Indices, ends: Indices) -> Flags:
        """Return the flags of the words, or parts of words, between these places."""
        return self._vocabulary.read_flags(self.codes, starts, ends)

    def find(self, flag: int) -> Indices:
        """Return where the words with a flag begin."""
        places: Indices = self.starts[(self.flags & flag) > 0]
        return places

    def find_last(self, places: Indices) -> Indices:
        """Return the number of the last word that begins before each place; -1 before the first word."""
        return np.searchsorted(self.starts, places) - 1

    def find_next(self, places: Indices) -> Indices:
        """Return where the next word begins, from each place on; behind the text after the last word."""
        following: Indices = self.starts[np.searchsorted(self.starts, places)]
        return following
