"""Telephone numbers: by their form, or by the words around them; with `phonenumbers`, also by the plans of countries."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_crucible.detectors.places import Place

_WORD = re.compile(r"[^\W\d_]+")
# In lower case it is a letter and a mark, which would part words in two.
_TURKISH = "\u0130"
# How far before a number a word may stand.
REACH = 45
# How far after a number such a word may go on.
REACH_AFTER = 20
PHONE_WORDS = frozenset(
    (
        "phone", "phones", "telephone", "telephones", "tel", "call", "calls", "called", "calling", "dial", "dialed", "dialing",
        "ring", "mobile", "cell", "cellphone", "cellular", "fax", "hotline", "sms", "whatsapp", "answering", "message", "messages",
        "contact", "landline", "pager", "voicemail", "telefon", "telefonnummer", "handy", "handynummer", "mobil", "mobilnummer",
        "rufnummer", "durchwahl", "anrufen", "anzurufen", "angerufen", "erreichbar", "erreichen", "telefonisch",
    )
)  # fmt: skip
# These need more beside them: `reach me at 555 0123`, `text me on`, `Office: 555 0123`.
WORDS_BEFORE_PREPOSITION = frozenset(("reach", "reached", "text", "texted"))
PREPOSITIONS = frozenset(("at", "on", "under"))
PLACES = frozenset(("desk", "office", "work", "home", "direct", "private"))
# These stand after a number: `030 901820 (office)`, `030 901820 zu erreichen`.
WORDS_AFTER = frozenset(
    (
        "office", "fax", "mobile", "cell", "home", "work", "tel", "phone", "desk", "buro", "büro", "mobil", "erreichen",
        "erreichbar", "anrufen", "anzurufen",
    )
)  # fmt: skip
_VERBS = ("erreichen", "erreichbar")
BEFORE_VERB = "zu"
WORD_AFTER = re.compile(
    rf"[\s,;(-]{{1,3}}(?:{'|'.join(sorted(WORDS_AFTER))}|{BEFORE_VERB} (?:{'|'.join(_VERBS)}))\b", re.IGNORECASE
)
# So many words before a number may make it another one.
NEAREST = 3
# Numbers of these are no telephone's, though a word such as "call" may stand before.
OTHER_NUMBERS = frozenset(
    (
        "order", "invoice", "ticket", "account", "acct", "serial", "isbn", "tracking", "reference", "ref", "id", "case", "policy",
        "passport", "license", "licence", "sku", "batch", "version", "zip", "timestamp", "bestellung", "bestellnummer", "rechnung",
        "rechnungsnummer", "konto", "kontonummer", "kundennummer", "artikelnummer",
    )
)  # fmt: skip


def has_word_of_others(text: str) -> bool:
    """Return whether a text has a word of other numbers anywhere: that is faster than to look before each number."""
    lowered = _lower(text)
    return any(word in lowered for word in OTHER_NUMBERS)


def read_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return _WORD.findall(_lower(text))


def _lower(text: str) -> str:
    return text.replace(_TURKISH, "i").lower()


def is_phone(text: str, start: int, end: int, *, is_clear: bool) -> bool:
    """Return whether the words around a number leave it a telephone's, if it is clear, and else make it one."""
    before = text[max(0, start - REACH) : start]
    words = read_words(before)
    if not OTHER_NUMBERS.isdisjoint(words[-NEAREST:]):
        return False
    return is_clear or _is_called_phone(words, before) or WORD_AFTER.match(text[end : end + REACH_AFTER]) is not None


def _is_called_phone(words: Sequence[str], before: str) -> bool:
    """Return whether the words before a number, on its line or in a heading above, say that it is a telephone's."""
    label = before.rstrip()
    if not label or ("\n" in before[len(label) :] and label[-1] != ":"):
        return False
    words = words[-len(_WORD.findall(label.rpartition("\n")[2])) :] if "\n" in label else words
    if not PHONE_WORDS.isdisjoint(words):
        return True
    is_place = label[-1] == ":" and words[-1:] and words[-1] in PLACES
    return bool(is_place) or (
        bool(PREPOSITIONS.intersection(words[-1:])) and not WORDS_BEFORE_PREPOSITION.isdisjoint(words)
    )


# Groups of digits, and perhaps an extension. A pattern that begins with a set of characters is searched five times as fast as one
# that begins with a look behind, so that comes second, here and in the other detectors.
CANDIDATE = re.compile(
    r"[+(\d](?<![\w$€£#/=+-].)(?<!\d[.,:].)(?![ .\-/]\d\D)(?:(?<=\+)\(?\d|(?<=\()\d|(?<=\d))\d{0,14}+"
    # Behind a country code the area may have one digit: `+33 1 23 45 67 89`.
    r"(?:[ .\-/]\d{2,9}|(?:(?<=\+\d)|(?<=\+\d\d)|(?<=\+\d\d\d))[ .\-]\d(?=[ .\-]\d\d)"
    r"|[ .\-/]?\(\d{1,5}\)[ .\-/]?\d{1,9}|\)[ .\-/]?\d{2,9}){0,6}+(?<=\d\d)"
    r"(?:[ ]?(?:x|ext\.? ?)\d{1,5})?(?![\w%])(?![.,]\d)(?! ?[=*+])",
    re.ASCII,
)
_EXTENSION = r"(?:[ ]?(?:x|ext\.? ?)\d{1,5})?"
# North American numbers, those with the area in parentheses, and French ones need no word beside them; nor do international ones.
_FORMS = (
    rf"(?:00[ .-]?)?1?[ .-]?(?:\([2-9]\d\d\)[ -]?\d{{3}}[ .-]|[2-9]\d\d-\d{{3}}-|[2-9]\d\d\.\d{{3}}\.)\d{{4}}{_EXTENSION}"
    r"|\(0?\d{2,5}\)[ ]?\d{2,4}[ -]?\d{2,4}(?:[ -]\d{2,4})?"
    r"|0\d(?:(?P<gap>[ .-])\d\d)(?:(?P=gap)\d\d){3}"
)
CLEAR = re.compile(rf"{_FORMS}|\+\(?\d{{1,3}}\)?[ .\-/(]*\d.*|00[1-9]\d?[ .-]\d.*", re.DOTALL)
# One of several numbers in a row.
CLEAR_INSIDE = re.compile(rf"(?<![^ ])(?:{_FORMS}|\+\d{{1,3}}[ .-]?\(?\d{{1,4}}\)?(?:[ .-]?\d{{2,4}}){{2,3}})(?![^ ])")
# What each of these forms has. One set of characters in front is searched several times as fast as alternatives.
FORM = re.compile(
    r"[+(0.-](?:(?<=[+(])|(?<=0)(?=\d(?:[ .-]\d\d){4}|0[1-9]\d?[ .-]\d)|(?<=\d\d\d[-.])(?=\d\d\d[-.]\d{4}))", re.ASCII
)
FEWEST_DIGITS, MOST_DIGITS = 7, 15
DATE = re.compile(
    r"(?:19|20)\d\d(?P<after_year>[-./ ])[01]?\d(?P=after_year)[0-3]?\d.*"
    r"|[0-3]?\d(?P<before_year>[-./ ])[0-3]?\d(?P=before_year)(?:19|20)\d\d.*",
    re.DOTALL,
)
NO_PHONE = re.compile(rf"{DATE.pattern}|\d+\.\d+", re.DOTALL)
# All that a number has beside digits, but for its extension.
_NO_DIGITS = b"+( .-/)"


def read_shape(number: str) -> tuple[bool, bool]:
    """Return whether a number may be a telephone's, and whether only telephones have its form."""
    digits = len(number.partition("x")[0].partition("e")[0].encode().translate(None, _NO_DIGITS))
    may_be = FEWEST_DIGITS <= digits <= MOST_DIGITS and not NO_PHONE.fullmatch(number)
    return may_be, CLEAR.fullmatch(number) is not None


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


def find_phones_by_plan(text: str) -> Iterator[Place]:
    """Yield numbers that are valid in the numbering plan of their country, or of one of `REGIONS`.

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
            places[number] = _find_in_plans(number)
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


def _find_in_plans(number: str) -> list[tuple[int, int]]:
    """Return the places of valid numbers in a candidate, by the first region that has any."""
    phonenumbers = load_phonenumbers()
    # With a country code the region does not matter.
    for region in REGIONS[:1] if number[0] == "+" else REGIONS:
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
