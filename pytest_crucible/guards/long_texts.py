"""Characters and words of long texts by numpy: many times as fast as the standard library, which is faster for short ones.

Words are those of Latin-1; a character that is not of Latin-1 separates words.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import Codes, list_signs, look_up, read_code_points, read_codes
from pytest_crucible.guards.repeats import LongText

_WORD_SIGNS = bytes(chr(code).isalnum() or chr(code) == "_" for code in range(256))
_BETWEEN_LETTERS = list_signs(" .*-")
# As many characters as a number of 64 bits holds.
_WIDTH = 8
_DELETED = 0xFFFFFFFF

Places = NDArray[np.intp]


class Starts(NamedTuple):
    """Literals to look for where a word begins, or anywhere if they begin with a sign."""

    literals: tuple[str, ...]
    first: NDArray[np.uint64]
    after: NDArray[np.uint64]
    """What begins with a literal is, as a number, at least `first` and below `after`."""
    pairs: NDArray[np.bool_]
    """Whether a literal begins with two characters, by both their codes."""
    signs: bytes
    """For each code, whether a literal begins with that sign."""


def pack_starts(literals: Sequence[str]) -> Starts:
    """Return literals to look for. Of each the first eight characters are looked for, and then the rest."""
    heads = [_latin_head(literal) for literal in literals]
    pairs = np.zeros((256, 256), dtype=bool)
    for head in heads:
        pairs[head[0], head[1]] = True
    numbers = [int.from_bytes(head.ljust(_WIDTH, b"\0"), "big") for head in heads]
    after = [number + (1 << 8 * (_WIDTH - len(head))) for head, number in zip(heads, numbers, strict=True)]
    begins = {head[0] for head in heads}
    return Starts(
        literals=tuple(literals),
        first=np.array(numbers, dtype=np.uint64),
        after=np.array(after, dtype=np.uint64),
        pairs=pairs.ravel(),
        signs=bytes(code in begins and not _WORD_SIGNS[code] for code in range(256)),
    )


def _latin_head(literal: str) -> bytes:
    """Return the first characters of a literal, up to one that is not of Latin-1; two at least."""
    return literal[:_WIDTH].encode("latin-1", "replace").partition(b"?")[0]


def find_starts(text: str, starts: Starts) -> dict[str, list[int]]:
    """Return the literals that a text has, with their places but for repeats."""
    codes = read_codes(text)
    places = _possible_places(codes, starts)
    padded = np.concatenate([codes, np.zeros(_WIDTH, dtype=np.uint8)])
    numbers = np.zeros(len(places), dtype=np.uint64)
    for k in range(_WIDTH):
        numbers = numbers * np.uint64(256) + padded[places + k]
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    lows, highs = np.searchsorted(numbers, starts.first), np.searchsorted(numbers, starts.after)
    found, long_text = {}, LongText(text, codes)
    for k in np.flatnonzero(lows < highs).tolist():
        literal = starts.literals[k]
        exact = _confirm(text, literal, np.sort(places[order[lows[k] : highs[k]]]))
        if exact:
            found[literal] = long_text.drop_repeats(exact)
    return found


def _possible_places(codes: Codes, starts: Starts) -> Places:
    """Return where the first two characters of a literal stand."""
    is_word = look_up(codes, _WORD_SIGNS)
    is_first = is_word.copy()
    is_first[1:] &= ~is_word[:-1]
    places = np.flatnonzero(is_first | look_up(codes, starts.signs))
    places = places[places < len(codes) - 1]
    may_begin: NDArray[np.bool_] = starts.pairs[codes[places].astype(np.intp) * 256 + codes[places + 1]]
    possible: Places = places[may_begin]
    return possible


def _confirm(text: str, literal: str, places: Places) -> list[int]:
    """Return the places where the whole literal stands and no letter is before it."""
    exact: list[int] = places.tolist()
    if len(literal) > _WIDTH or not literal.isascii():
        exact = [place for place in exact if text.startswith(literal, place)]
    if text.isascii() or not literal[0].isalnum():
        return exact
    return [place for place in exact if place == 0 or not text[place - 1].isalnum()]


FEW_LETTERS = 3
"""Different words of one letter in any text: "a" and "I", and perhaps a name."""


def join_spelled_out(text: str) -> str:
    """Return a text without the signs between three or more single letters: `i g n o r e` is `ignore`."""
    codes = read_codes(text)
    if len(codes) < 5:
        return text
    is_word, is_between = look_up(codes, _WORD_SIGNS), look_up(codes, _BETWEEN_LETTERS)
    single = is_word.copy()
    single[1:] &= ~is_word[:-1]
    single[:-1] &= ~is_word[1:]
    triple = single[:-4] & is_between[1:-3] & single[2:-2] & is_between[3:-1] & single[4:]
    # Short texts with fewer different single letters are left as they are, too: they are numbers such as 1.1.1.
    if not triple.any() or len(np.unique(codes[single])) < FEW_LETTERS:
        return text
    left = np.ones(len(codes), dtype=bool)
    left[1:-3] &= ~triple
    left[3:-1] &= ~triple
    if text.isascii():
        return codes[left].tobytes().decode()
    return _decode(read_code_points(text)[left])


def has_run(text: str, characters: str, least: int) -> bool:
    """Return whether at least so many of the characters, all ASCII, stand in a row."""
    is_other = ~look_up(read_codes(text), list_signs(characters))
    ends = np.concatenate([[-1], np.flatnonzero(is_other), [len(text)]])
    return bool(np.diff(ends).max() > least)


def has_pair(text: str, signs: str, letters: str) -> bool:
    """Return whether one of the signs stands beside one of the letters; all are ASCII."""
    codes = read_codes(text)
    is_sign, is_letter = look_up(codes, list_signs(signs)), look_up(codes, list_signs(letters))
    return bool((is_sign[1:] & is_letter[:-1]).any() or (is_sign[:-1] & is_letter[1:]).any())


def _decode(codes: NDArray[np.uint32]) -> str:
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


class CharacterTable:
    """Replaces single characters by one other, or by nothing."""

    def __init__(self, characters: Mapping[str, str]) -> None:
        self._characters = characters

    @functools.cached_property
    def _table(self) -> NDArray[np.uint32]:
        table = np.arange(0x110000, dtype=np.uint32)
        for character, other in self._characters.items():
            table[ord(character)] = ord(other) if other else _DELETED
        return table

    def __call__(self, text: str) -> str:
        codes = self._table[read_code_points(text)]
        return _decode(codes[codes != _DELETED])
