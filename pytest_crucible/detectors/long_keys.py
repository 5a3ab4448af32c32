"""Keys of services and logins of URLs in long texts: what the patterns of `records.redaction` describe, decided for all at once."""

from __future__ import annotations

from string import ascii_uppercase, digits

import numpy as np
from numpy.typing import NDArray

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
# How the keys begin that have no dash behind the name.
_TOKEN, _AMAZON, _GOOGLE = "eyJ", "AKIA", "AIza"
_SHORTEST_HEADER, _OF_AMAZON, _SHORTEST_OF_GOOGLE = 8, 16, 30
_CAPITALS = list_signs(ascii_uppercase + digits)
_LAST_LETTERS = list_signs("".join(name[-1] for name in SERVICES))
# Zeros around the text, so that no place read is outside.
_PAD = 8
Indices = NDArray[np.intp]
_NONE = read_places([])


def find_key_places(text: str) -> tuple[Places, Places, Places]:
    """Return the keys of services, JSON Web Tokens, and logins of URLs that `key_places` yields."""
    if not any(sign in text for sign in ("-", "_", "://", _TOKEN, _AMAZON, _GOOGLE)):
        return _NONE, _NONE, _NONE
    codes = np.pad(read_codes(text), _PAD)
    kinds = np.pad(read_kinds(text), _PAD, constant_values=SPACE)
    keys = [_find_keys(codes, kinds)]
    keys += [find(codes, kinds) for name, find in _FINDERS.items() if name in text]
    # Of two that begin at one place the key counts.
    places = np.concatenate([*keys, _find_logins(codes, kinds)])
    places = places[np.argsort(places[:, 0], kind="stable")]
    is_first = np.append(True, places[1:, 0] > places[:-1, 0])[: len(places)]
    return _split(codes, select_apart(places[is_first]))


def _find_tokens(codes: Codes, kinds: Codes) -> Places:
    """Return the JSON Web Tokens: three rows of characters of words and dashes with points between."""
    is_part = (kinds == WORD) | (codes == ord("-"))
    starts = _find_name(codes, _TOKEN)
    ends = find_ends(is_part, starts)
    is_token = ends - starts >= len(_TOKEN) + _SHORTEST_HEADER
    for _ in range(2):
        begins = ends + 1
        is_token &= codes[ends] == ord(".")
        ends = find_ends(is_part, np.minimum(begins, len(codes) - 1))
        is_token &= ends > begins
    tokens: Places = np.stack([starts, ends], axis=1)[is_token]
    return tokens


def _find_of_amazon(codes: Codes, kinds: Codes) -> Places:
    """Return the keys of Amazon: sixteen capitals and digits behind the name."""
    starts = _find_name(codes, _AMAZON)
    begins = starts + len(_AMAZON)
    ends = begins + _OF_AMAZON
    has_form = find_ends(look_up(codes, _CAPITALS), begins) >= ends
    starts, ends = starts[has_form], ends[has_form]
    is_word = kinds == WORD
    keys: Places = np.stack([starts, ends], axis=1)[~is_word[starts - 1] & ~is_word[ends]]
    return keys


def _find_of_google(codes: Codes, kinds: Codes) -> Places:
    """Return the keys of Google: thirty or more characters of words and dashes behind the name."""
    starts = _find_name(codes, _GOOGLE)
    is_word = kinds == WORD
    ends = find_ends(is_word | (codes == ord("-")), starts)
    is_key = ~is_word[starts - 1] & (ends - starts >= len(_GOOGLE) + _SHORTEST_OF_GOOGLE)
    keys: Places = np.stack([starts, ends], axis=1)[is_key]
    return keys


_FINDERS = {_TOKEN: _find_tokens, _AMAZON: _find_of_amazon, _GOOGLE: _find_of_google}


def _find_name(codes: Codes, name: str) -> Indices:
    """Return where a name begins."""
    starts = np.flatnonzero(codes == ord(name[0]))
    for distance, letter in enumerate(name.encode()[1:], start=1):
        starts = starts[codes[starts + distance] == letter]
    return starts


def _find_logins(codes: Codes, kinds: Codes) -> Places:
    """Return the rows of characters between `://` and an at sign that have a colon inside."""
    is_colon, is_slash = codes == ord(":"), codes == ord("/")
    starts = np.flatnonzero(is_colon[:-2] & is_slash[1:-1] & is_slash[2:]) + len("://")
    if not len(starts):
        return _NONE
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
        return _NONE
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


def _split(codes: Codes, places: Places) -> tuple[Places, Places, Places]:
    """Return the places of keys, tokens and logins in the text."""
    starts, ends = places.T
    is_login = codes[ends] == ord("@")
    for distance, sign in enumerate("//:", start=1):
        is_login &= codes[starts - distance] == ord(sign)
    is_token = ~is_login
    for distance, letter in enumerate(_TOKEN.encode()):
        is_token &= codes[starts + distance] == letter
    places = places - _PAD
    return places[~is_login & ~is_token], places[is_token], places[is_login]
