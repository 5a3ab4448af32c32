"""Secrets in a text: keys, tokens, private keys and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pytest_crucible.detectors.characters import LONG
from pytest_crucible.detectors.long_keys import find_key_places
from pytest_crucible.detectors.long_passwords import END_OF_SENTENCE, FEWEST, find_password_places, holds_word
from pytest_crucible.detectors.places import Place, Places, make_spans, read_places
from pytest_crucible.records.detections import Span
from pytest_crucible.records.redaction import key_places

SECRET_TYPES = ("API_KEY", "JSON_WEB_TOKEN", "PASSWORD", "PRIVATE_KEY", "URL_LOGIN")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{0,20000}(?:-----END [A-Z ]{1,60}-----)?"
)
# `password: hunter2`, `api_key = "..."`, `das Passwort lautet ...`; what follows the word is the secret.
_ASSIGNMENT = re.compile(
    r"\b(?:password|passwd|pwd|passphrase|passwort|kennwort|(?:api|access|secret|private|auth)[_ -]?(?:key|token)"
    r"|client[_ -]?secret)[\"']?\s{0,3}(?:[:=]|\bis\b|\bist\b|\blautet\b)\s{0,3}([\"'`]?)([^\s\"'`<>]{6,200})",
    re.IGNORECASE,
)
_STEMS = ("pass", "pwd", "kennwort", "key", "token", "secret")


def find_secrets(text: str) -> tuple[Span, ...]:
    """Return the secrets in a text, in order of place: what redaction removes from manifests, private keys and passwords.

    >>> find_secrets("password: tr0ub4dor")
    (Span(type='PASSWORD', start=10, end=19),)
    """
    findings = _find_keys(text)
    findings["PRIVATE_KEY"] = read_places(_private_keys(text))
    findings["PASSWORD"] = read_places(_find_assignments(text))
    return make_spans(findings)


def _find_keys(text: str) -> dict[str, Places]:
    """Return the places of keys, tokens and logins by their type."""
    if len(text) >= LONG:
        keys, tokens, logins = find_key_places(text)
        return {"API_KEY": keys, "JSON_WEB_TOKEN": tokens, "URL_LOGIN": logins}
    findings: dict[str, list[Place]] = {}
    for start, end in key_places(text):
        findings.setdefault(_key_type(text, start, end), []).append((start, end))
    return {name: read_places(places) for name, places in findings.items()}


def _key_type(text: str, start: int, end: int) -> str:
    if text[end : end + 1] == "@" and text[max(0, start - 3) : start] == "://":
        return "URL_LOGIN"
    return "JSON_WEB_TOKEN" if text.startswith("eyJ", start) else "API_KEY"


def _private_keys(text: str) -> list[Place]:
    return [match.span() for match in _PRIVATE_KEY.finditer(text)] if "PRIVATE KEY" in text else []


def _find_assignments(text: str) -> Iterable[Place] | Places:
    lowered = text.lower()
    if not any(stem in lowered for stem in _STEMS):
        return []
    return find_password_places(text) if len(text) >= LONG else _find_one_by_one(text)


def _find_one_by_one(text: str) -> Iterator[Place]:
    for match in _ASSIGNMENT.finditer(text):
        value = match[2].rstrip(END_OF_SENTENCE)
        # `password: required` and `the password is wrong` hold a word.
        if len(value) >= FEWEST and not holds_word(value):
            yield match.start(2), match.start(2) + len(value)
