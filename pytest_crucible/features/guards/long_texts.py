"""Characters and words of long texts by numpy: many times as fast as the standard library, which is faster for short ones.

Words are those of Latin-1; a character that is not of Latin-1 separates words. Of places with equal text behind them a pattern
is tried at the first, since a text that repeats itself would take much longer.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.features.guards.patterns import Need

LONG = 20_000
"""Characters from which arrays are worth their start."""

Codes = NDArray[np.uint8]
CodePoints = NDArray[np.uint32]
Mask = NDArray[np.bool_]
_FEW_RANGES = 4


def read_codes(text: str) -> Codes:
    """Return the codes of the characters; 0 for one that is not of Latin-1."""
    if text.isascii():
        return np.frombuffer(text.encode(), dtype=np.uint8)
    codes = read_code_points(text)
    return codes.astype(np.uint8) * (codes < 256)


def read_code_points(text: str) -> CodePoints:
    """Return the code points of the characters; lone surrogates stay."""
    # Encoding would call an error handler for each surrogate, which takes a microsecond.
    return np.array([text]).view(np.uint32)[: len(text)]


def join_code_points(points: CodePoints) -> str:
    """Return the text with these code points."""
    # What is read from an array loses the zeros at its end, therefore something else is there.
    ended = np.append(points, np.uint32(ord(".")))
    text: str = ended.view(f"<U{len(ended)}")[0]
    return str(text[:-1])


def look_up(codes: Codes, table: bytes) -> Mask:
    """Return for each code whether the table of 256 has it."""
    ranges = _list_ranges(table)
    if len(ranges) > _FEW_RANGES:
        return np.frombuffer(codes.tobytes().translate(table), dtype=bool)
    # Comparing takes a tenth of the time of a table for each range: codes below its first one wrap around.
    mask = np.zeros(codes.shape, dtype=bool)
    for first, span in ranges:
        mask |= (codes - first) <= span
    return mask


@functools.cache
def _list_ranges(table: bytes) -> list[tuple[np.uint8, np.uint8]]:
    """Return the codes in a table as ranges: the first of each, and how far the last is from it."""
    codes = [code for code in range(256) if table[code]]
    firsts = [code for code in codes if code - 1 not in codes]
    lasts = [code for code in codes if code + 1 not in codes]
    return [(np.uint8(first), np.uint8(last - first)) for first, last in zip(firsts, lasts, strict=True)]


def list_signs(characters: str) -> bytes:
    """Return the table of these characters for `look_up`; all are of Latin-1."""
    return bytes(chr(code) in characters for code in range(256))


REACH = 400
"""How much of the text behind a place is compared: no pattern of a rule reads further."""
FEW_PLACES, _MANY_PLACES = 32, 1_000
Hashes = NDArray[np.uint64]
# Odd, so that its powers have no common factor with 2**64.
_BASE = 0x9E3779B97F4A7C15


def drop_repeats(text: str, places: Sequence[int]) -> list[int]:
    """Return, in order, the first of all places with equal text behind them; few places are returned as they are."""
    if len(places) <= FEW_PLACES:
        return list(places)
    first = {text[place : place + REACH]: place for place in reversed(_unlike_neighbours(text, places))}
    return sorted(first.values())


def _unlike_neighbours(text: str, places: Sequence[int]) -> list[int]:
    """Return the places whose text is not that of the place before: comparing takes a fifth of the time of hashing."""
    different, last = [], ""
    for place in places:
        part = text[place : place + REACH]
        if part != last:
            different.append(place)
            last = part
    return different


class LongText:
    """A long text, whose repeats are found by hashes: only parts with equal ones are compared."""

    def __init__(self, text: str, codes: Codes) -> None:
        """`codes` are numbers of the characters. Two characters may share one: equal hashes are compared as text."""
        self._text, self._codes = text, codes

    @functools.cached_property
    def _powers(self) -> Hashes:
        return np.cumprod(np.full(len(self._codes) + 1, _BASE, dtype=np.uint64), dtype=np.uint64)

    @functools.cached_property
    def _sums(self) -> Hashes:
        return np.concatenate(
            [np.zeros(1, dtype=np.uint64), np.cumsum(self._codes * self._powers[1:], dtype=np.uint64)]
        )

    def drop_repeats(self, places: Sequence[int]) -> list[int]:
        """Return, in order, the first of all places with equal text behind them."""
        if len(places) > _MANY_PLACES:
            places = _unlike_neighbours(self._text, places)
        if len(places) <= _MANY_PLACES:
            return drop_repeats(self._text, places)
        hashes = self._hash(np.array(places))
        in_order = np.sort(hashes)
        repeated = in_order[1:][in_order[1:] == in_order[:-1]]
        if not len(repeated):
            return list(places)
        is_repeated = np.isin(hashes, repeated)
        singles = itertools.compress(places, (~is_repeated).tolist())
        return sorted([*singles, *drop_repeats(self._text, list(itertools.compress(places, is_repeated.tolist())))])

    def _hash(self, places: NDArray[np.intp]) -> Hashes:
        """Return hashes of what is behind each place: polynomials modulo 2**64 (Karp and Rabin 1987)."""
        ends = np.minimum(places + REACH, len(self._codes))
        # The same power for equal parts, wherever they stand.
        hashes: Hashes = (self._sums[ends] - self._sums[places]) * self._powers[len(self._codes) - places]
        return hashes


_WORD_SIGNS = bytes(chr(code).isalnum() or chr(code) == "_" for code in range(256))
_BLANK_SIGNS = bytes(code if _WORD_SIGNS[code] else ord(" ") for code in range(256))
"""Replaces all that is in no word by a blank."""
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
    """Return the range of packed prefixes of each literal: at least `first` and below `after`."""
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
    ranges = [_range(head) for head in heads]
    begins = {head[0] for head in heads}
    return Starts(
        literals=tuple(literals),
        first=np.array([first for first, _ in ranges], dtype=np.uint64),
        after=np.array([after for _, after in ranges], dtype=np.uint64),
        pairs=pairs.ravel(),
        signs=bytes(code in begins and not _WORD_SIGNS[code] for code in range(256)),
    )


def _latin_head(literal: str) -> bytes:
    """Return the first characters of a literal, up to one that is not of Latin-1."""
    return literal[:_WIDTH].encode("latin-1", "replace").partition(b"?")[0]


class LongForm:
    """A form of a long text in which starts, and the words that rules need after them, are looked for."""

    def __init__(self, text: str) -> None:
        self._text, self._codes = text, read_codes(text)
        self._padded = np.concatenate([self._codes, np.zeros(2 * _WIDTH, dtype=np.uint8)])
        self._blanked = np.frombuffer(self._padded.tobytes().translate(_BLANK_SIGNS), dtype=np.uint8)
        is_word = look_up(self._codes, _WORD_SIGNS)
        self._begins_word = is_word.copy()
        self._begins_word[1:] &= ~is_word[:-1]
        self._found: dict[frozenset[str], Places] = {}
        self._starts: dict[str, Places] = {}
        self._different: dict[str, Places] = {}

    def find_starts(self, starts: Starts) -> Sequence[str]:
        """Return the literals that the text has; `places` returns where they are."""
        places = self._possible_places(starts)
        heads = _pack(self._padded, places)
        order = np.argsort(heads, kind="stable")
        places, heads = places[order], heads[order]
        tails = _pack(self._padded, places + _WIDTH)
        lows, highs = np.searchsorted(heads, starts.first), np.searchsorted(heads, starts.after)
        for k in np.flatnonzero(lows < highs).tolist():
            literal, alike = starts.literals[k], slice(lows[k], highs[k])
            exact = self._confirm(literal, places[alike], tails[alike])
            if len(exact):
                self._starts[literal] = np.sort(exact)
        return list(self._starts)

    def places(self, start: str, needs: Sequence[Need]) -> list[int]:
        """Return the places of a start that have what is needed behind them. Of most of those with equal text only one is."""
        places = self._keep_needed(self._starts[start], len(start), needs)
        if len(places) > FEW_PLACES:
            places = self._keep_needed(self._drop_repeats(start), len(start), needs)
        listed: list[int] = places.tolist()
        return listed

    def _keep_needed(self, places: Places, length: int, needs: Sequence[Need]) -> Places:
        reached = places + length
        for need in needs:
            words = self._find_words(need.words)
            # Behind the last word nothing is within reach.
            words = np.append(words, len(self._padded) + REACH)
            reached = words[np.searchsorted(words, reached)] + 1
            is_near = reached <= places + min(length + need.within + 1, REACH)
            places, reached = places[is_near], reached[is_near]
        return places

    def _find_words(self, beginnings: frozenset[str]) -> Places:
        """Return where the words that begin like one of a set stand."""
        if beginnings not in self._found:
            begins, bounds = _pack_words(beginnings)
            places = self._words[begins[self._pairs]]
            within = np.searchsorted(bounds, _pack(self._blanked, places), side="right") % 2 == 1
            self._found[beginnings] = places[within]
        return self._found[beginnings]

    @functools.cached_property
    def _words(self) -> Places:
        return np.flatnonzero(self._begins_word)

    @functools.cached_property
    def _pairs(self) -> Places:
        return _read_pairs(self._blanked, self._words)

    @functools.cached_property
    def _repeats(self) -> LongText:
        return LongText(self._text, self._codes)

    def _drop_repeats(self, start: str) -> Places:
        if start not in self._different:
            different = self._repeats.drop_repeats(self._starts[start].tolist())
            self._different[start] = np.array(different, dtype=np.intp)
        return self._different[start]

    def _confirm(self, literal: str, places: Places, tails: NDArray[np.uint64]) -> Places:
        """Return the places where the whole literal stands; its first eight characters do. `tails` are the next eight of each."""
        rest = literal[_WIDTH : 2 * _WIDTH]
        if rest.isascii() and rest:
            first, after = _range(rest.encode())
            places = places[(tails >= first) & (tails < after)]
        if len(literal) > 2 * _WIDTH or not literal.isascii():
            places = _list(place for place in places.tolist() if self._text.startswith(literal, place))
        return places

    def _possible_places(self, starts: Starts) -> Places:
        """Return where the first two characters of a literal stand."""
        places = np.flatnonzero(self._begins_word | look_up(self._codes, starts.signs))
        possible: Places = places[starts.pairs[_read_pairs(self._padded, places)]]
        return possible if self._text.isascii() else self._drop_joined(possible)

    def _drop_joined(self, places: Places) -> Places:
        """Return the places without those inside a word, before which a letter of another script stands."""
        # Characters of Latin-1 are looked up already; all others have the code 0.
        unsure = np.flatnonzero(self._begins_word[places] & (self._codes[places - 1] == 0))
        joined = [k for k in unsure.tolist() if places[k] and self._text[places[k] - 1].isalnum()]
        apart: Places = np.delete(places, joined)
        return apart


def _read_pairs(codes: Codes, places: Places) -> Places:
    pairs: Places = codes[places].astype(np.intp) * 256 + codes[places + 1]
    return pairs


def _pack(codes: Codes, places: Places) -> NDArray[np.uint64]:
    """Return the eight characters at each place as a number."""
    numbers = np.ndarray(len(codes) - _WIDTH + 1, dtype=">u8", buffer=codes, strides=(1,))
    return numbers[places].astype(np.uint64)


def _list(places: Iterable[int]) -> Places:
    return np.fromiter(places, dtype=np.intp)


@functools.cache
def _pack_words(beginnings: frozenset[str]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """Return whether a word begins with two characters, by both their codes; and bounds of the words' beginnings as numbers.

    What begins like one of the words is at least one of the bounds and below the next, in turns.
    """
    pairs = np.zeros((256, 256), dtype=bool)
    bounds: list[int] = []
    for head in sorted(_latin_head(text).translate(_BLANK_SIGNS) for text in beginnings):
        pairs[head[0], head[1] if len(head) > 1 else slice(None)] = True
        first, after = _range(head)
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], after)
        else:
            bounds += [first, after]
    return pairs.ravel(), np.array(bounds, dtype=np.uint64)


def _range(head: bytes) -> tuple[int, int]:
    """Return a head as a number, and the smallest number above all that begin with the head."""
    number = int.from_bytes(head.ljust(_WIDTH, b"\0"), "big")
    return number, number + (1 << 8 * (_WIDTH - len(head)))


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
    return join_code_points(read_code_points(text)[left])


def has_run(text: str, characters: str, least: int) -> bool:
    """Return whether at least so many of the characters, all ASCII, stand in a row."""
    is_other = ~look_up(read_codes(text), list_signs(characters))
    ends = np.concatenate([[-1], np.flatnonzero(is_other), [len(text)]])
    return bool(np.diff(ends).max() > least)


def has_any(text: str, characters: str) -> bool:
    """Return whether a text has one of the characters, all of which are ASCII."""
    return bool(look_up(read_codes(text), list_signs(characters)).any())


def has_pair(text: str, signs: str, letters: str) -> bool:
    """Return whether one of the signs stands beside one of the letters; all are ASCII."""
    codes = read_codes(text)
    is_sign, is_letter = look_up(codes, list_signs(signs)), look_up(codes, list_signs(letters))
    return bool((is_sign[1:] & is_letter[:-1]).any() or (is_sign[:-1] & is_letter[1:]).any())


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

    @functools.cached_property
    def _lower_table(self) -> NDArray[np.uint32]:
        table = self._table.copy()
        table[table != _DELETED] = _list_lower()[table[table != _DELETED]]
        return table

    def __call__(self, text: str) -> str:
        return _map(text, self._table)

    def lower(self, text: str) -> str:
        """Return the text in lower case, after the characters are replaced."""
        # What these are in lower case is two characters, or depends on others beside them.
        if any(character in text for character in _LOWER_BY_CONTEXT):
            return self(text).lower()
        return _map(text, self._lower_table)


_LOWER_BY_CONTEXT = "\u0130\u03a3"
# No character from here on has another one in lower case.
_AFTER_CASES = 0x1E944


@functools.cache
def _list_lower() -> NDArray[np.uint32]:
    table = np.arange(0x110000, dtype=np.uint32)
    for point in range(_AFTER_CASES):
        lowered = chr(point).lower()
        table[point] = ord(lowered) if len(lowered) == 1 else point
    return table


def _map(text: str, table: NDArray[np.uint32]) -> str:
    codes = table[read_code_points(text)]
    is_left = codes != _DELETED
    return join_code_points(codes if is_left.all() else codes[is_left])
