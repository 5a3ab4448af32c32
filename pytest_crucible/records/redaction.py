"""Redaction of keys and passwords: removed from texts that are stored or shown."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from pytest_crucible.records import key_forms

HIDDEN = "(key hidden)"
SERVICES = (
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
_OF_SERVICES = (
    rf"\b(?:{'|'.join(SERVICES)})[-_][\w-]{{16,}}|\bAKIA[0-9A-Z]{{16}}\b|\bAIza[\w-]{{30,}}|{key_forms.PATTERN}"
)
# The shortest JSON Web Token, `eyJ12345678.a.b`. Most ids and answers are shorter.
SHORTEST_KEY = 15
_RUN = re.compile(r"[\w-]*")
# User and password of a URL: a run of characters up to an @, with a colon inside. The look ahead keeps the time linear.
_USER = r"(?<=://)(?=[^/\s@'\"]++@)[^/\s@'\"]*?:[^/\s@'\"]++(?=@)"


def _dash_of_service(dash: str) -> re.Pattern[str]:
    """Return a pattern of the dash in a service's key; its last group is the number of letters before the dash.

    >>> _dash_of_service("-").search("sk-0123456789abcdef").lastindex
    2
    """
    names = [[name for name in SERVICES if len(name) == length] for length in range(max(map(len, SERVICES)) + 1)]
    named = "|".join(rf"(?<=\b(?:{'|'.join(group)}).)()" if group else "(?!)()" for group in names[1:])
    # Most dashes follow another letter, or none; in a long run of dashes only the first can follow a name.
    last = "".join(sorted({name[-1] for name in SERVICES}))
    return re.compile(rf"{dash}(?:(?<=[{last}].)(?:{named})(?=[\w-]{{16}})|{dash}{{15,}}+)")


_USERS = re.compile(r"://(?=[^/\s@'\"]*+@)")


def _finder(pattern: re.Pattern[str]) -> Callable[[str], list[int]]:
    """Return a function that lists where a pattern matches in a text."""
    return lambda text: [match.start() for match in pattern.finditer(text)]


def _name_finder(dash: re.Pattern[str]) -> Callable[[str], list[int]]:
    """Return a function that lists where the names before the dashes of a text begin."""
    return lambda text: [match.start() - match.lastindex for match in dash.finditer(text) if match.lastindex]


# Finders of possible matches, each with a literal text in them: searching for that is ten times as fast as a pattern.
_USER_FINDERS: tuple[tuple[str, Callable[[str], list[int]]], ...] = (
    ("://", lambda text: [match.end() for match in _USERS.finditer(text)]),
)
_FINDERS = (
    *_USER_FINDERS,
    ("eyJ", _finder(re.compile(r"eyJ(?=[\w-]{8})"))),
    ("AKIA", _finder(re.compile(r"AKIA(?<=\bAKIA)(?=[0-9A-Z]{16}\b)"))),
    ("AIza", _finder(re.compile(r"AIza(?<=\bAIza)(?=[\w-]{30})"))),
    *((dash, _name_finder(_dash_of_service(dash))) for dash in "-_"),
    *key_forms.FINDERS,
)


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

    def hide(text: str) -> str:
        starts = _starts(text, ordered) if text else ()
        return _replace(text, pattern, without_tokens, sorted({*starts})) if starts else text

    return hide


def _starts(text: str, secrets: Iterable[str]) -> list[int]:
    """Return every position at which a match may begin, and few others."""
    starts: list[int] = []
    for secret in secrets:
        if secret in text:
            starts += _positions(text, secret)
    for literal, find in _FINDERS if len(text) >= SHORTEST_KEY else _USER_FINDERS:
        if literal in text:
            starts += find(text)
    return starts


def _positions(text: str, literal: str) -> Iterator[int]:
    position = text.find(literal)
    while position >= 0:
        yield position
        position = text.find(literal, position + 1)


def _replace(text: str, pattern: re.Pattern[str], without_tokens: re.Pattern[str], starts: Iterable[int]) -> str:
    """Return the text without its matches, as `pattern.sub` would, which tries every position."""
    parts, end = [], 0
    for match in _matches(text, pattern, without_tokens, starts):
        parts += [text[end : match.start()], HIDDEN]
        end = match.end()
    return "".join((*parts, text[end:])) if parts else text


def _matches(
    text: str, pattern: re.Pattern[str], without_tokens: re.Pattern[str], starts: Iterable[int]
) -> Iterator[re.Match[str]]:
    end, barren = 0, 0
    for start in starts:
        if start < end:
            continue
        # In a run of letters that is no JSON Web Token no part of it is one: each would read to the end of the run again.
        match = (without_tokens if start < barren else pattern).match(text, start)
        if match is not None:
            yield match
            end = match.end()
        elif start >= barren and text.startswith("eyJ", start):
            run = _RUN.match(text, start)
            barren = run.end() if run else 0


_KEYS = re.compile("|".join([_TOKEN, _OF_SERVICES, _USER]))
_KEYS_WITHOUT_TOKENS = re.compile("|".join([_OF_SERVICES, _USER]))


def key_places(text: str) -> Iterator[tuple[int, int]]:
    """Yield where keys of services, JSON Web Tokens and logins of URLs begin and end: a hider removes these in any case.

    >>> list(key_places("x-api-key: tml-0123456789abcdef"))
    [(11, 31)]
    """
    starts = sorted({*_starts(text, ())})
    yield from (match.span() for match in _matches(text, _KEYS, _KEYS_WITHOUT_TOKENS, starts))


def redact(data: Any, hide: Callable[[str], str]) -> Any:
    """Return JSON data or records with every text redacted, names of fields too.

    >>> redact({"tml-1": "tml-1", "tml-2": 2}, hider({"tml-1", "tml-2"}))
    {'(key hidden)': '(key hidden)', '(key hidden) 2': 2}
    """
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        fields: dict[Any, Any] = {}
        for name, value in data.items():
            fields[_free_name(hide(name) if isinstance(name, str) else name, fields)] = redact(value, hide)
        return fields
    if isinstance(data, list | tuple):
        return type(data)(redact(item, hide) for item in data)
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        fields = {
            field.name: redact(getattr(data, field.name), hide) for field in dataclasses.fields(data) if field.init
        }
        return dataclasses.replace(data, **fields)
    return data


def _free_name(name: Any, fields: dict[Any, Any]) -> Any:
    """Return the name, numbered where another field has become equal to it: no value is lost."""
    if name not in fields:
        return name
    return next(numbered for k in itertools.count(2) if (numbered := f"{name} {k}") not in fields)


def _spellings(secret: str) -> Iterator[str]:
    """Yield a secret as it is, and as URLs, JSON, Python's repr and HTML write it: servers return what they were sent."""
    yield secret
    # A variable that is not valid UTF-8 holds surrogates.
    raw = secret.encode(errors="surrogateescape")
    yield from (quote(raw), quote(raw, safe=""), quote_plus(raw), html.escape(secret))
    for written in (json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret)):
        yield written[1:-1]
