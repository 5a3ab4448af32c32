"""The words around a number that make it a telephone's, or another one."""

from __future__ import annotations

import re
from collections.abc import Sequence

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
