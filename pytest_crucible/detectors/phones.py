"""Telephone numbers: by their form, or by the words around them; with `phonenumbers`, also by the plans of countries."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.detectors.phone_forms import CANDIDATE, CLEAR_INSIDE, DATE, FEWEST_DIGITS, FORM, read_shape
from pytest_crucible.detectors.phone_words import (
    NEAREST,
    OTHER_NUMBERS,
    REACH,
    REACH_AFTER,
    has_word_of_others,
    is_phone,
    read_words,
)
from pytest_crucible.detectors.places import Place

_LETTER = re.compile(r"[^\W\d_]")
_ASCII_LETTER = re.compile(r"[A-Za-z]")
_SHORTEST, _FEWEST_PLAIN, _FEWEST_GROUPS, _SOCIAL_SECURITY = 8, 10, 3, [3, 2, 4]
# Looking a number up in all plans takes about a millisecond.
_MOST_NUMBERS = 500
REGIONS = (
    "US", "GB", "DE", "FR", "AT", "CH", "ES", "IT", "NL", "AU", "CA", "IN", "BR", "SE", "DK", "NO", "PL", "CZ", "PT", "GR", "BE",
    "IE", "JP", "CN", "KR", "TR", "MX", "ZA", "NZ",
)  # fmt: skip
"""Regions whose numbers `phonenumbers` reads without a country code."""


def find_phones(text: str) -> Iterator[Place]:
    """Yield numbers in a form that only telephones have, and numbers beside a word such as "call" or "Telefon"."""
    shape = functools.cache(read_shape)
    has_others = functools.cache(lambda: has_word_of_others(text))
    for number, start, is_after_letter in _find_candidates(text):
        end = start + len(number)
        may_be, is_clear = shape(number)
        if may_be and (
            (is_clear and not (is_after_letter and has_others())) or is_phone(text, start, end, is_clear=is_clear)
        ):
            yield start, end
        else:
            for inside in CLEAR_INSIDE.finditer(number):
                yield start + inside.start(), start + inside.end()


def _find_candidates(text: str) -> Iterator[tuple[str, int, bool]]:
    """Yield numbers that have a form or a letter near them, their places, and whether a letter may be shortly before.

    Most numbers are short, or have neither.
    """
    # The first letter within reach, and the first form: each stretch of text without them is searched once.
    letter, form, forms = -1, -1, (match.start() for match in FORM.finditer(text))
    first_letter = _ASCII_LETTER if text.isascii() else _LETTER
    for match in CANDIDATE.finditer(text):
        start, end = match.span()
        if end - start < FEWEST_DIGITS:
            continue
        while form < start:
            form = next(forms, len(text))
        if form >= end:
            if letter < max(0, start - REACH):
                next_letter = first_letter.search(text, max(0, start - REACH))
                letter = next_letter.start() if next_letter else len(text) + REACH
            if letter >= end + REACH_AFTER:
                continue
        number = match[0]
        # Of `(call 415-555-0123` the parenthesis is not part.
        is_open = number[0] == "(" and ")" not in number
        yield number[is_open:], start + is_open, letter < start


def find_phones_by_plan(text: str, regions: Sequence[str] = REGIONS) -> Iterator[Place]:
    """Yield numbers that are valid in the numbering plan of their country, or of one of the regions.

    Needs the package `phonenumbers`. Only the first 500 different numbers of a text are looked up.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    for match in CANDIDATE.finditer(text):
        number = match[0]
        if len(number) < _SHORTEST or DATE.fullmatch(number) or _is_plain(number):
            continue
        if number not in places:
            if len(places) == _MOST_NUMBERS:
                return
            places[number] = _find_in_plans(number, regions)
        for first, last in places[number]:
            start = match.start() + first
            words = read_words(text[max(0, start - REACH) : start])
            if OTHER_NUMBERS.isdisjoint(words[-NEAREST:]):
                yield start, match.start() + last


def _is_plain(number: str) -> bool:
    """Return whether a number is one of documents, amounts and addresses: few digits in one or two groups, or those of a US SSN."""
    groups = re.findall(r"\d+", number)
    if [*map(len, groups)] == _SOCIAL_SECURITY:
        return True
    return number[0] not in "0+(" and len(groups) < _FEWEST_GROUPS and sum(map(len, groups)) < _FEWEST_PLAIN


def _find_in_plans(number: str, regions: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of valid numbers in a candidate, by the first region that has any."""
    phonenumbers = load_phonenumbers()
    # With a country code the region does not matter.
    for region in regions[:1] if number[0] == "+" else regions:
        matches = phonenumbers.PhoneNumberMatcher(number, region, leniency=phonenumbers.Leniency.VALID)
        # Some plans have numbers of five digits; so do postal codes.
        places = [(match.start, match.end) for match in matches if len(match.raw_string) >= _SHORTEST]
        if places:
            return places
    return []


@functools.cache
def has_phonenumbers() -> bool:
    """Return whether the package `phonenumbers` is installed."""
    return importlib.util.find_spec("phonenumbers") is not None


def load_phonenumbers() -> Any:
    """Return the package `phonenumbers`. Raises ImportError, with the extra to install, where it is missing."""
    try:
        import phonenumbers
    except ImportError:
        raise ImportError(
            'phones = "phonenumbers" needs the package phonenumbers: pip install "pytest-crucible[guard]"'
        ) from None
    return phonenumbers
