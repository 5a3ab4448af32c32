"""Passwords of long texts: what the pattern of `secrets` describes, decided by numpy for all names of passwords at once."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.detectors.characters import (
    SPACE,
    WORD,
    Mask,
    find_ends,
    list_signs,
    look_up,
    read_code_points,
    read_codes,
    read_kinds,
)
from pytest_crucible.detectors.places import Places, select_apart

Indices = NDArray[np.intp]
# The names of passwords by their ends, and what may stand before these.
_OF_KEYS = ("api", "access", "secret", "private", "auth")
_NAMES: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("password", "passwd", "pwd", "passphrase", "passwort", "kennwort"), ()
) | {"key": _OF_KEYS, "token": _OF_KEYS, "secret": ("client",)}
_VERBS = ("is", "ist", "lautet")
_LAST_LETTERS = list_signs("".join({name[-1] for name in _NAMES}))
_QUOTES, _ALL_QUOTES, _ASSIGNS, _SEPARATORS = list_signs("\"'"), list_signs("\"'`"), list_signs(":="), list_signs("_ -")
_STOPS, _BEHIND = list_signs("\"'`<>"), list_signs("\"':=")
_LOWER, _UPPER = list_signs(ascii_lowercase), list_signs(ascii_uppercase)
_MOST_BLANKS, FEWEST, _MOST, _LAST_OF_ASCII = 3, 6, 200, 127
END_OF_SENTENCE = ".,;:!?)"
_PUNCTUATION = list_signs(END_OF_SENTENCE)
# Characters of other scripts that are these letters when case is ignored.
_AS_LETTERS = {"\u017f": "s", "\u212a": "k", "\u0130": "i", "\u0131": "i"}
# Blanks around the text, so that no place read is outside.
_PAD = 32


class _Text:
    def __init__(self, text: str) -> None:
        lowered = np.frombuffer(read_codes(text).tobytes().lower(), dtype=np.uint8)
        others = [character for character in _AS_LETTERS if character in text]
        if others:
            points = read_code_points(text)
            for character in others:
                lowered = np.where(points == ord(character), np.uint8(ord(_AS_LETTERS[character])), lowered)
        self.codes = np.pad(lowered, _PAD)
        kinds = np.pad(read_kinds(text), _PAD, constant_values=SPACE)
        self.is_word, self.is_space = kinds == WORD, kinds == SPACE

    def find_names(self) -> tuple[Indices, Indices]:
        """Return where the names of passwords begin and end."""
        may_follow = self.is_space | look_up(self.codes, _BEHIND)
        ends = np.flatnonzero(look_up(self.codes, _LAST_LETTERS)[:-1] & may_follow[1:]) + 1
        found = [self._find_named(ends, name, before) for name, before in _NAMES.items()]
        starts, ends = map(np.concatenate, zip(*found, strict=True))
        is_apart = ~self.is_word[starts - 1]
        return starts[is_apart], ends[is_apart]

    def _find_named(self, ends: Indices, name: str, before: tuple[str, ...]) -> tuple[Indices, Indices]:
        ends = ends[self._have_before(ends, name)]
        starts = ends - len(name)
        if not before:
            return starts, ends
        joints = starts - look_up(self.codes, _SEPARATORS)[starts - 1]
        have = [self._have_before(joints, word) for word in before]
        found_starts = [joints[mask] - len(word) for mask, word in zip(have, before, strict=True)]
        return np.concatenate(found_starts), np.concatenate([ends[mask] for mask in have])

    def _have_before(self, places: Indices, word: str) -> Indices:
        """Return the numbers of the places before which a word stands."""
        numbers = np.arange(len(places))
        for distance, letter in enumerate(reversed(word.encode()), start=1):
            numbers = numbers[self.codes[places[numbers] - distance] == letter]
        return numbers

    def find_values(self, ends: Indices) -> tuple[Indices, Indices]:
        """Return where the value behind each name begins and ends; fewer than six characters for none."""
        behind_quotes = ends + look_up(self.codes, _QUOTES)[ends]
        starts, is_assigned = self._skip_sign(self._skip_blanks(behind_quotes))
        starts = self._skip_blanks(starts)
        starts = starts + look_up(self.codes, _ALL_QUOTES)[starts]
        is_part = ~(self.is_space | look_up(self.codes, _STOPS))
        return starts, np.where(is_assigned, np.minimum(find_ends(is_part, starts), starts + _MOST), starts)

    def _skip_blanks(self, places: Indices) -> Indices:
        for _ in range(_MOST_BLANKS):
            places = places + self.is_space[places]
        return places

    def _skip_sign(self, places: Indices) -> tuple[Indices, Mask]:
        """Return the places behind a colon, an equals sign or a verb, and whether there is one."""
        lengths = look_up(self.codes, _ASSIGNS)[places].astype(np.intp)
        for verb in _VERBS:
            # A name has a quotation mark or a blank behind it where a verb follows.
            is_verb = ~self.is_word[places + len(verb)]
            for distance, letter in enumerate(verb.encode()):
                is_verb &= self.codes[places + distance] == letter
            lengths += len(verb) * is_verb
        return places + lengths, lengths > 0


def find_password_places(text: str) -> Places:
    """Return the passwords that `secrets` finds in a text."""
    around = _Text(text)
    names, name_ends = around.find_names()
    starts, ends = around.find_values(name_ends)
    is_long = ends - starts >= FEWEST
    order = np.flatnonzero(is_long)[np.argsort(names[is_long])]
    names, values = names[order], np.stack([starts[order], ends[order]], axis=1)
    # A name in a value that is found is part of that.
    found = select_apart(np.stack([names, values[:, 1]], axis=1))
    return _select_secrets(text, values[np.searchsorted(names, found[:, 0])] - _PAD)


def _select_secrets(text: str, values: Places) -> Places:
    """Return the values without the punctuation behind them, those that are long enough then and not a word."""
    codes = read_codes(text)
    starts, ends = values.T
    others = np.append(-1, np.flatnonzero(~look_up(codes, _PUNCTUATION)))
    ends = others[np.searchsorted(others, ends) - 1] + 1
    lower, upper = _count(look_up(codes, _LOWER), starts, ends), _count(look_up(codes, _UPPER), starts, ends)
    is_title = (upper == 1) & look_up(codes, _UPPER)[starts]
    is_word = (lower + upper == ends - starts) & ((lower == 0) | (upper == 0) | is_title)
    is_secret = (ends - starts >= FEWEST) & ~is_word
    if not text.isascii():
        has_others = is_secret & (_count(read_code_points(text) > _LAST_OF_ASCII, starts, ends) > 0)
        for k in np.flatnonzero(has_others).tolist():
            is_secret[k] = not holds_word(text[starts[k] : ends[k]])
    places: Places = np.stack([starts, ends], axis=1)[is_secret]
    return places


def _count(mask: Mask, starts: Indices, ends: Indices) -> NDArray[np.int32]:
    before = np.append(np.int32(0), np.cumsum(mask, dtype=np.int32))
    count: NDArray[np.int32] = before[ends] - before[starts]
    return count


def holds_word(value: str) -> bool:
    """Return whether a value is a word: a secret has more than letters of one case.

    >>> holds_word("required"), holds_word("Tr0ub4dor")
    (True, False)
    """
    return value.isalpha() and (value.islower() or value.istitle() or value.isupper())
