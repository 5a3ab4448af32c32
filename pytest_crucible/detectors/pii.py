"""Personal data in a text, under presidio's type names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from pytest_crucible.detectors.accounts import find_cards, find_ibans, find_social_security_numbers
from pytest_crucible.detectors.addresses import find_emails, find_ip_addresses, find_urls
from pytest_crucible.detectors.phones import find_phones, find_phones_by_plan, has_phonenumbers
from pytest_crucible.detectors.places import Place, drop_overlapping, make_spans
from pytest_crucible.detectors.widths import find_in_any_width
from pytest_crucible.records.detections import Span

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
        found = list(find_phones(text))
        found += drop_overlapping(find_phones_by_plan(text), found) if by_plan else []
        findings[_PHONE] = drop_overlapping(found, *findings.values())
    return make_spans({name: places for name, places in findings.items() if name in types})
