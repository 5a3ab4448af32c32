"""URLs of long texts: what the patterns of `addresses` describe, decided by numpy for all places at once."""

from __future__ import annotations

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
_SCHEMES = ("https", "http", "ftps", "ftp", "wss", "ws")
_STOPS, _W = list_signs("<>\"'`{}|\\^[]"), list_signs("wW")
_END_OF_SENTENCE, _BEFORE_WWW = list_signs(".,;:!?)*_"), list_signs("/@.-")
_MOST_LABEL = 63
# The one letter of another script that is an s when case is ignored.
_LONG_S = "\u017f"
# Signs around the text at which every URL ends, so that no place read is outside.
_PAD = 8


class _Text:
    def __init__(self, text: str) -> None:
        codes = read_codes(text)
        if _LONG_S in text:
            codes = np.where(read_code_points(text) == ord(_LONG_S), np.uint8(ord("s")), codes)
        self.codes = np.pad(codes, _PAD)
        kinds = np.pad(read_kinds(text), _PAD, constant_values=SPACE)
        self.is_word = kinds == WORD
        self.is_part = ~look_up(self.codes, _STOPS) & (kinds != SPACE)

    def find_with_scheme(self) -> tuple[Indices, Indices]:
        """Return the URLs behind a scheme. The first scheme of a row of characters is that of all of them."""
        slashes = np.flatnonzero(
            (self.codes[:-2] == ord(":")) & (self.codes[1:-1] == ord("/")) & (self.codes[2:] == ord("/"))
        )
        ends = find_ends(self.is_part, slashes)
        is_first = np.append(True, ends[1:] > ends[:-1])[: len(ends)] & (ends > slashes + 3)
        slashes, ends = slashes[is_first], ends[is_first]
        lowered = self.codes | np.uint8(0x20)
        starts = slashes.copy()
        for scheme in _SCHEMES:
            begins = slashes - len(scheme)
            is_scheme = (starts == slashes) & ~self.is_word[begins - 1]
            for k, letter in enumerate(scheme.encode()):
                is_scheme &= lowered[begins + k] == letter
            starts = np.where(is_scheme, begins, starts)
        has_scheme = starts < slashes
        return starts[has_scheme], ends[has_scheme]

    def find_www(self) -> tuple[Indices, Indices]:
        """Return the URLs that begin with `www.`."""
        is_w = look_up(self.codes, _W)
        is_before = self.is_word | look_up(self.codes, _BEFORE_WWW)
        starts = np.flatnonzero(is_w[:-3] & is_w[1:-2] & is_w[2:-1] & (self.codes[3:] == ord(".")))
        starts = starts[~is_before[starts - 1]]
        labels = find_ends(self.is_word | (self.codes == ord("-")), starts + 4)
        length = labels - starts - 4
        is_url = (length >= 1) & (length <= _MOST_LABEL) & (self.codes[labels] == ord("."))
        ends = find_ends(self.is_part, labels)
        is_url &= ends > labels + 1
        places = select_apart(np.stack([starts[is_url], ends[is_url]], axis=1))
        return places[:, 0], places[:, 1]

    def trim(self, ends: Indices) -> Indices:
        """Return the ends without the punctuation before them."""
        others = np.append(-1, np.flatnonzero(~look_up(self.codes, _END_OF_SENTENCE)))
        trimmed: Indices = others[np.searchsorted(others, ends) - 1] + 1
        return trimmed

    def may_have_pair(self, starts: Indices, trimmed: Indices, ends: Indices) -> Mask:
        """Return which URLs have a parenthesis in them and one behind."""
        opening = np.append(0, np.cumsum(self.codes == ord("("), dtype=np.int32))
        may_have: Mask = (trimmed < ends) & (self.codes[trimmed] == ord(")")) & (opening[trimmed] > opening[starts])
        return may_have


def find_url_places(text: str) -> tuple[Places, Places]:
    """Return the URLs without the punctuation behind, and those, with it, of which a parenthesis may be part."""
    around = _Text(text)
    starts, ends = map(np.concatenate, zip(around.find_with_scheme(), around.find_www(), strict=True))
    trimmed = around.trim(ends)
    is_unsure = around.may_have_pair(starts, trimmed, ends)
    sure = np.stack([starts, trimmed], axis=1)[~is_unsure]
    return sure - _PAD, np.stack([starts, ends], axis=1)[is_unsure] - _PAD
