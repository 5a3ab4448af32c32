"""Redaction of keys and passwords: removed from texts that are stored or shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "(key hidden)"
_SERVICES = (
    "tml",
    "sk",
    "rk",
    "pk",
    "hf",
    "ghp",
    "gho",
    "ghu",
    "ghs",
    "ghr",
    "glpat",
    *(f"xox{letter}" for letter in "abprs"),
)
_TOKEN = r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"  # a JSON Web Token
# Keys of well-known services, by their form.
_OF_SERVICES = rf"\b(?:{'|'.join(_SERVICES)})[-_][\w-]{{16,}}|\bAKIA[0-9A-Z]{{16}}\b|\bAIza[\w-]{{30,}}"
# Where such a key begins, apart from those of services: literal text is found ten times as fast as alternatives are.
_BEGINNINGS = ("eyJ", "AKIA", "AIza")
# A service's name and its dash, by the dash: names of one length share a look behind.
_AFTER_SERVICE = r"(?:(?<=[srp]k.)|(?<=hf.)|(?<=tml.)|(?<=gh[pousr].)|(?<=glpat.)|(?<=xox[abprs].))(?=[\w-]{16})"
_RUN = re.compile(r"[\w-]*")
_DASHES = tuple((dash, re.compile(rf"{dash}{_AFTER_SERVICE}")) for dash in "-_")
_NAME_LENGTHS = sorted({len(service) for service in _SERVICES})
# User and password of a URL: a run of characters up to an @, with a colon inside. The look ahead keeps the time linear.
_USER = r"(?<=://)(?=[^/\s@'\"]++@)[^/\s@'\"]+?:[^/\s@'\"]++(?=@)"


def hider(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that removes these secrets, and everything that looks like one, from a text.

    >>> hider({"tml-1"})("x-api-key: tml-1, https://me:secret@host/")
    'x-api-key: (key hidden), https://(key hidden)@host/'
    """
    # One may begin another.
    ordered = sorted({text for secret in secrets if secret for text in _spellings(secret)}, key=len, reverse=True)
    secrets_first = [*map(re.escape, ordered)]
    pattern = re.compile("|".join([*secrets_first, _TOKEN, _OF_SERVICES, _USER]))
    without_tokens = re.compile("|".join([*secrets_first, _OF_SERVICES, _USER]))
    literals = (*ordered, *_BEGINNINGS)

    def hide(text: str) -> str:
        starts = set(_starts(text, literals))
        return _replace(text, pattern, without_tokens, sorted(starts)) if starts else text

    return hide


def _starts(text: str, literals: Iterable[str]) -> Iterator[int]:
    """Yield every position at which a match may begin, and some at which none does."""
    for literal in literals:
        if literal in text:
            yield from _positions(text, literal)
    if "://" in text:
        yield from (position + 3 for position in _positions(text, "://"))
    for dash, pattern in _DASHES:
        if dash in text:
            for match in pattern.finditer(text):
                yield from (match.start() - length for length in _NAME_LENGTHS if match.start() >= length)


def _positions(text: str, literal: str) -> Iterator[int]:
    position = text.find(literal)
    while position >= 0:
        yield position
        position = text.find(literal, position + 1)


def _replace(text: str, pattern: re.Pattern[str], without_tokens: re.Pattern[str], starts: Iterable[int]) -> str:
    """Return the text without its matches, as `pattern.sub` would, which tries every position."""
    parts, end, barren = [], 0, 0
    for start in starts:
        if start < end:
            continue
        # In a run of letters that is no JSON Web Token no part of it is one: each would read to the end of the run again.
        match = (without_tokens if start < barren else pattern).match(text, start)
        if match is not None:
            parts += [text[end:start], HIDDEN]
            end = match.end()
        elif start >= barren and text.startswith("eyJ", start):
            run = _RUN.match(text, start)
            barren = run.end() if run else 0
    return "".join((*parts, text[end:])) if parts else text


def redact(data: Any, hide: Callable[[str], str]) -> Any:
    """Return JSON data with every text redacted."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        return {name: redact(value, hide) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(redact(item, hide) for item in data)
    return data


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as URLs, JSON, Python's repr and HTML write it: servers return what they were sent."""
    yield secret
    # A variable that is not valid UTF-8 holds surrogates.
    raw = secret.encode(errors="surrogateescape")
    yield from (quote(raw), quote(raw, safe=""), quote_plus(raw), html.escape(secret))
    for written in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret)):
        yield written[1:-1]
