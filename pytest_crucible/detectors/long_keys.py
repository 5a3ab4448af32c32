"""Keys of services and logins of URLs in long texts: what the patterns of `records.redaction` describe, decided for all at once."""

from __future__ import annotations

import numpy as np

from pytest_crucible.detectors.characters import (
    SPACE,
    WORD,
    Codes,
    find_ends,
    list_signs,
    look_up,
    read_codes,
    read_kinds,
)
from pytest_crucible.detectors.places import Places, read_places, select_apart
from pytest_crucible.records.redaction import SERVICES

_STOPS, _DASHES = list_signs("/@'\""), list_signs("-_")
_SHORTEST = 16
OTHER_KEYS = ("eyJ", "AKIA", "AIza")
"""How the keys begin that are not looked for here: a text with one of these is read by the patterns."""
_LAST_LETTERS = list_signs("".join(name[-1] for name in SERVICES))
# Zeros around the text, so that no place read is outside.
_PAD = 8


def find_key_places(text: str) -> tuple[Places, Places]:
    """Return the keys of services, and the logins of URLs, that `key_places` yields."""
    if "-" not in text and "_" not in text and "://" not in text:
        return read_places([]), read_places([])
    codes = np.pad(read_codes(text), _PAD)
    kinds = np.pad(read_kinds(text), _PAD, constant_values=SPACE)
    logins, keys = _find_logins(codes, kinds), _find_keys(codes, kinds)
    # Of two that begin at one place the key counts.
    places = np.concatenate([keys, logins])
    places = places[np.argsort(places[:, 0], kind="stable")]
    is_first = np.append(True, places[1:, 0] > places[:-1, 0])[: len(places)]
    return _split(codes, select_apart(places[is_first]))


def _find_logins(codes: Codes, kinds: Codes) -> Places:
    """Return the rows of characters between `://` and an at sign that have a colon inside."""
    is_colon, is_slash = codes == ord(":"), codes == ord("/")
    starts = np.flatnonzero(is_colon[:-2] & is_slash[1:-1] & is_slash[2:]) + len("://")
    if not len(starts):
        return read_places([])
    ends = find_ends(~look_up(codes, _STOPS) & (kinds != SPACE), starts)
    # Neither the user nor the password is empty.
    first_colons = find_ends(~is_colon, starts + 1)
    is_login = (codes[ends] == ord("@")) & (first_colons < ends - 1)
    logins: Places = np.stack([starts, ends], axis=1)[is_login]
    return logins


def _find_keys(codes: Codes, kinds: Codes) -> Places:
    """Return the names of services, each with a dash and sixteen or more characters of words behind."""
    is_dash, is_word = look_up(codes, _DASHES), kinds == WORD
    # A dash behind one of the letters that names end with.
    dashes = np.flatnonzero(is_dash[1:] & look_up(codes, _LAST_LETTERS)[:-1]) + 1
    if not len(dashes):
        return read_places([])
    ends = find_ends(is_word | (codes == ord("-")), dashes + 1)
    is_long = ends - dashes > _SHORTEST
    dashes, ends = dashes[is_long], ends[is_long]
    starts = dashes.copy()
    for name in SERVICES:
        begins = dashes - len(name)
        is_named = ~is_word[begins - 1]
        for k, letter in enumerate(name.encode()):
            is_named &= codes[begins + k] == letter
        starts = np.where(is_named, begins, starts)
    keys: Places = np.stack([starts, ends], axis=1)[starts < dashes]
    return keys


def _split(codes: Codes, places: Places) -> tuple[Places, Places]:
    """Return the places in the text, those of logins apart."""
    starts, ends = places.T
    is_login = codes[ends] == ord("@")
    for distance, sign in enumerate("//:", start=1):
        is_login &= codes[starts - distance] == ord(sign)
    places = places - _PAD
    return places[~is_login], places[is_login]
