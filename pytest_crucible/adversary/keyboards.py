"""Neighbouring keys of keyboard layouts."""

from __future__ import annotations

from functools import cache

from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.suggestions import suggest

# The rows from the top, and how far each is shifted to the right, in keys.
LAYOUTS: dict[str, tuple[str, str, str]] = {
    "qwerty": ("qwertyuiop", "asdfghjkl", "zxcvbnm"),
    "qwertz": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm"),
    "azerty": ("azertyuiop", "qsdfghjklm", "wxcvbn"),
    "dvorak": ("',.pyfgcrl", "aoeuidhtns", ";qjkxbmwvz"),
}
# Keys by which each row is shifted to the right on common keyboards.
_SHIFTS = (0.0, 0.25, 0.75)
_NEAR = 1.3
"""Keys between the middles of two neighbours: the key beside, and the two above and below."""


@cache
def neighbours(layout: str) -> dict[str, str]:
    """Return the letters beside each letter of a layout. Raises SpecError for an unknown one.

    >>> neighbours("qwerty")["g"], neighbours("qwertz")["t"]
    ('tyfhvb', 'rzfg')
    """
    if layout not in LAYOUTS:
        hint = suggest(str(layout), LAYOUTS, always=f"the layouts are {', '.join(LAYOUTS)}")
        raise SpecError(f"layout {layout!r} is not known: {hint}")
    places = {
        letter: (column + shift, row)
        for row, (letters, shift) in enumerate(zip(LAYOUTS[layout], _SHIFTS, strict=True))
        for column, letter in enumerate(letters)
        if letter.isalpha()
    }
    return {
        letter: "".join(other for other, place in places.items() if other != letter and _is_near(places[letter], place))
        for letter in places
    }


def _is_near(one: tuple[float, int], other: tuple[float, int]) -> bool:
    return abs(one[1] - other[1]) <= 1 and (one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2 <= _NEAR**2
