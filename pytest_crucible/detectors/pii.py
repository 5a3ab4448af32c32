"""Personal data in a text, under presidio's type names; cards and accounts by form and checksum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from pytest_crucible.detectors.addresses import find_emails, find_ip_addresses, find_urls
from pytest_crucible.detectors.phones import find_phones, find_phones_by_plan, has_phonenumbers
from pytest_crucible.detectors.places import Place, drop_overlapping, find_in_any_width, make_spans
from pytest_crucible.records.outcomes import Span

_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")
# A letter stands for 10 to 35.
_LETTERS = {ord(letter): str(10 + k) for k, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}


def passes_luhn(digits: str) -> bool:
    """Return whether a number has the check digit of ISO/IEC 7812-1 (Luhn). `digits` are ASCII digits only.

    >>> passes_luhn("4111111111111111"), passes_luhn("4111111111111112")
    (True, False)
    """
    code = digits.encode()
    odd, even = code[-1::-2], code[-2::-2].translate(_DOUBLED)
    return (sum(odd) + sum(even) - 48 * len(code)) % 10 == 0


def passes_mod97(account: str) -> bool:
    """Return whether an IBAN, in upper case without spaces, has the check digits of ISO 13616 (ISO 7064, mod 97-10).

    >>> passes_mod97("GB82WEST12345698765432"), passes_mod97("GB83WEST12345698765432")
    (True, False)
    """
    return int((account[4:] + account[:4]).translate(_LETTERS)) % 97 == 1


# Whole, in fours, or in the groups of American Express and Diners Club. It looks ahead: the second of two numbers may be a card.
_CARD_BODY = r"(?=((?:\d{11,18}|\d{3}([ .-])\d{4}\2\d{4}\2(?:\d{4}\2\d{3}|\d{1,4})|\d{3}([ .-])\d{6}\3\d{4,5})(?![\w])(?![-.]\d)))"
_CARD = re.compile(r"\d(?<![\w.+-]\d)" + _CARD_BODY, re.ASCII)
# Without such a word beside it, a card begins with four digits of an issuer below; looking at those first saves most attempts.
_CARD_OF_ISSUER = re.compile(
    r"(?:[02-6]|1(?=800))(?<![\w.+-]\d)(?=(?<=[14])|(?<=5)[0-8]|(?<=2)(?:[2-7]|131)|(?<=3)[04-9]|(?<=6)[02-57]|(?<=0)604)"
    + _CARD_BODY,
    re.ASCII,
)
# Issuers by their first digits (ISO/IEC 7812) and the lengths that they use: Visa, Mastercard, American Express, Discover, JCB,
# Diners Club, UnionPay, Maestro.
_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})"
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|3[47]\d{13}"
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12,15}"
    r"|(?:2131|1800)\d{11}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|(?:30[0-5]\d|3095|36\d\d|3[89]\d\d)\d{10,15}"
    r"|62\d{14,17}"
    r"|(?:50[12]\d|503\d|5[6-8]\d\d|6304|6390|67\d\d|0604)\d{8,15}"
)
# Beside such a word the check digit is enough: issuers' ranges grow.
_SEPARATORS = (" ", "-")
_CARD_WORDS = ("card", "credit", "debit", "visa", "amex", "cc", "kredit", "karte")
_CARD_WORD = re.compile(
    r"\b(?:card|credit|debit|visa|mastercard|amex|cc|kredit|karte|kreditkarte)(?:n?nummer)?\b[^\n]{0,25}$",
    re.IGNORECASE,
)
# Found by the first separator: a text has fewer of them than digits.
_SSN = re.compile(
    r"([- ])(?=\d\d\1\d{4})(?<=\d{3}.)(?<![\w.+-]\d{3}.)(?<!000.)(?<!666.)(?<!9\d\d.)(?!00)\d\d\1(?!0000)\d{4}(?![\w])(?![-.]\d)",
    re.ASCII,
)
# The letters of a country and two check digits, found by the first of these.
_ACCOUNT_BEGIN = re.compile(r"\d(?<=[A-Za-z]{2}\d)(?<![^\W_][A-Za-z]{2}\d)(?=\d)", re.ASCII)
_ACCOUNT = re.compile(r"....([ -]?)[A-Za-z0-9]{4}(?:\1[A-Za-z0-9]{4}){1,6}+(?:\1[A-Za-z0-9]{1,3})?", re.ASCII)
# Lengths of IBANs by country, from the registry of SWIFT (ISO 13616).
_IBAN_LENGTHS = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC",
        33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip


def find_cards(text: str) -> Iterator[Place]:
    """Yield the numbers of payment cards: the check digit, and an issuer's first digits or a word such as "card" before."""
    end, has_word = 0, _has_card_word(text)
    for match in (_CARD if has_word else _CARD_OF_ISSUER).finditer(text):
        start = match.start()
        if start < end:
            continue
        number = _without_separators(match[0] + match[1])
        if passes_luhn(number) and (_ISSUERS.fullmatch(number) or (has_word and _is_called_card(text, start))):
            end = match.end(1)
            yield start, end


def _has_card_word(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in _CARD_WORDS)


def _is_called_card(text: str, start: int) -> bool:
    return _CARD_WORD.search(text[max(0, start - 40) : start]) is not None


def find_social_security_numbers(text: str) -> Iterator[Place]:
    """Yield US social security numbers in three groups. 000, 666 and 9xx are never issued."""
    return ((match.start() - len("123"), match.end()) for match in _SSN.finditer(text))


def find_ibans(text: str) -> Iterator[Place]:
    """Yield IBANs: a country's length, and the check digits. The groups may be separated."""
    for match in _ACCOUNT_BEGIN.finditer(text):
        start = match.start() - 2
        length = _IBAN_LENGTHS.get(text[start : start + 2].upper(), 0)
        # With separators, one is after each four characters.
        end = start + length + (length - 1) // 4 * (text[start + 4 : start + 5] in _SEPARATORS)
        account = text[start:end]
        if (
            end <= len(text)
            and not text[end : end + 1].isalnum()
            and _ACCOUNT.fullmatch(account)
            and passes_mod97(_without_separators(account).upper())
        ):
            yield start, end


def _without_separators(number: str) -> str:
    return number.replace(" ", "").replace("-", "").replace(".", "")


PhoneMethod = Literal["auto", "context", "phonenumbers"]
"""`auto` is `phonenumbers` where that package is installed, and else `context`."""
PII_TYPES = ("CREDIT_CARD", "EMAIL_ADDRESS", "IBAN_CODE", "IP_ADDRESS", "PHONE_NUMBER", "URL", "US_SSN")
_PHONE = "PHONE_NUMBER"
_FINDERS: dict[str, Callable[[str], Iterable[Place]]] = {
    "IBAN_CODE": find_ibans,
    "CREDIT_CARD": find_cards,
    "US_SSN": find_social_security_numbers,
    "IP_ADDRESS": find_ip_addresses,
    "EMAIL_ADDRESS": find_emails,
    "URL": find_urls,
}
# Signs of which every match has one. Looking for a sign takes a fiftieth of the time of a pattern.
_SIGNS = {"EMAIL_ADDRESS": "@", "URL": ".", "IP_ADDRESS": ".:", "US_SSN": "- "}
_WITHOUT_DIGITS = ("EMAIL_ADDRESS", "URL")
_DIGITS = "0123456789"


def find_pii(text: str, types: Sequence[str] = PII_TYPES, *, phones: PhoneMethod = "auto") -> tuple[Span, ...]:
    """Return the personal data in a text, in order of place. Offsets are code points.

    Spans of two types may overlap where both are right, as an IP address in a URL; a number has one type only.

    >>> find_pii("Grüße an jürgen@example.com")
    (Span(type='EMAIL_ADDRESS', start=9, end=27),)
    """
    return tuple(find_in_any_width(lambda folded: _find(folded, types, phones), text))


def _find(text: str, types: Sequence[str], phones: PhoneMethod) -> tuple[Span, ...]:
    has_digits = any(digit in text for digit in _DIGITS)
    by_plan = has_digits and _PHONE in types and (phones == "phonenumbers" or (phones == "auto" and has_phonenumbers()))
    findings: dict[str, list[Place]] = {}
    for name, find in _FINDERS.items():
        # In the plan of some country other numbers are telephones'.
        is_needed = name in types or (by_plan and name not in _WITHOUT_DIGITS)
        if not is_needed or not (has_digits or name in _WITHOUT_DIGITS):
            continue
        if name in _SIGNS and not any(sign in text for sign in _SIGNS[name]):
            continue
        places = list(find(text))
        # Part of an IBAN may have the form of a card.
        findings[name] = drop_overlapping(places, *findings.values()) if name == "CREDIT_CARD" else places
    if _PHONE in types and has_digits:
        by_form = list(find_phones(text))
        by_form += drop_overlapping(find_phones_by_plan(text), by_form) if by_plan else []
        findings[_PHONE] = drop_overlapping(by_form, *findings.values())
    return make_spans({name: places for name, places in findings.items() if name in types})
