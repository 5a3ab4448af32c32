"""Secrets in a text: keys, tokens, private keys and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_crucible.detectors.assignments import find_assigned
from pytest_crucible.detectors.places import Place, drop_overlapping, find_in_any_width, is_placeholder, make_spans
from pytest_crucible.records.outcomes import Span
from pytest_crucible.records.redaction import key_places

SECRET_TYPES = ("API_KEY", "JSON_WEB_TOKEN", "PASSWORD", "PRIVATE_KEY", "URL_LOGIN")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{0,20000}(?:-----END [A-Z ]{1,60}-----)?"
)
# A short name, a sign, and 32 letters of both cases and digits: keys of services that no list has. Other identifiers are shorter,
# or in hex. Behind `live` or `key` fewer are enough.
_NAMED = re.compile(r"[_-](?=[A-Za-z0-9]{20})")
_OF_KEYS = ("live", "prod", "secret", "sk", "pat", "tok", "tkn", "token", "key", "api", "oauth", "auth", "pw", "admin")
_NAME = re.compile(r"[a-z][a-z0-9]{1,9}(?:[_-][a-z0-9]{1,6}){0,2}[_-]")
_NAME_REACH, _BODY = 24, re.compile(r"[A-Za-z0-9]{20,200}\b")
_FEWEST_OF_UNNAMED = 32
_HASHES = ("sha1-", "sha256-", "sha384-", "sha512-", "md5-")


def find_secrets(text: str) -> tuple[Span, ...]:
    """Return the secrets in a text, in order of place: what redaction removes from manifests, private keys and passwords.

    Values that only stand in for a secret, such as `your-key-here`, are left out.

    >>> find_secrets("password: tr0ub4dor")
    (Span(type='PASSWORD', start=10, end=19),)
    """
    return tuple(find_in_any_width(_find, text))


def _find(text: str) -> tuple[Span, ...]:
    findings = _find_keys(text)
    findings["PRIVATE_KEY"] = list(_find_private_keys(text))
    known = [place for places in findings.values() for place in places]
    findings.setdefault("API_KEY", []).extend(drop_overlapping(_find_named(text), known))
    findings["PASSWORD"] = list(find_assigned(text))
    return make_spans(findings)


def _find_keys(text: str) -> dict[str, list[Place]]:
    """Return the places of keys, tokens and logins by their type."""
    findings: dict[str, list[Place]] = {}
    for start, end in key_places(text):
        kind = _key_type(text, start, end)
        value = text[start:end]
        if not (
            is_placeholder(value.partition(":")[2]) if kind == "URL_LOGIN" else _is_name(value) or is_placeholder(value)
        ):
            findings.setdefault(kind, []).append((start, end))
    return findings


def _is_name(key: str) -> bool:
    """Return whether a key of a service has no digit and no capital: `hf_raise_for_status` is a function."""
    return key.islower() and not any(map(str.isdigit, key))


def _key_type(text: str, start: int, end: int) -> str:
    if text[end : end + 1] == "@" and text[max(0, start - 3) : start] == "://":
        return "URL_LOGIN"
    return "JSON_WEB_TOKEN" if text.startswith("eyJ", start) else "API_KEY"


def _find_private_keys(text: str) -> Iterator[Place]:
    return (match.span() for match in _PRIVATE_KEY.finditer(text)) if "PRIVATE KEY" in text else iter(())


def _find_named(text: str) -> Iterator[Place]:
    """Yield keys of services that no list has, by their form."""
    end = 0
    for match in _NAMED.finditer(text):
        body = _BODY.match(text, match.end())
        name = _NAME.fullmatch(re.split(r"[^\w-]", text[max(end, match.end() - _NAME_REACH) : match.end()])[-1])
        if body and name and _is_key(name[0], body[0]):
            end = body.end()
            yield body.start() - len(name[0]), end


def _is_key(name: str, body: str) -> bool:
    if is_placeholder(body) or name.startswith(_HASHES):
        return False
    has_both_cases = any(map(str.isupper, body)) and any(map(str.islower, body))
    is_long = len(body) >= _FEWEST_OF_UNNAMED and has_both_cases and sum(map(str.isdigit, body)) > 1
    return is_long or (re.split("[_-]", name)[-2] in _OF_KEYS and any(map(str.isdigit, body)))
