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
# Keys of well-known services, by their form.
_SHAPED = (
    # A JSON Web Token.
    r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"
    rf"|\b(?:{'|'.join(_SERVICES)})[-_][\w-]{{16,}}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
)
# Every text with such a key has one of these marks, which are quicker to search for.
_MARKS = ("://", "eyJ", "AKIA", "AIza", *(f"{service}{dash}" for service in _SERVICES for dash in "-_"))
# User and password of a URL.
_USER = r"(?<=://)[^/\s@'\"]+:[^/\s@'\"]+(?=@)"


def hider(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that removes these secrets, and everything that looks like one, from a text.

    >>> hider({"tml-1"})("x-api-key: tml-1, https://me:secret@host/")
    'x-api-key: (key hidden), https://(key hidden)@host/'
    """
    # One may begin another.
    ordered = sorted({text for secret in secrets if secret for text in _spellings(secret)}, key=len, reverse=True)
    pattern = re.compile("|".join([*map(re.escape, ordered), _SHAPED, _USER]))
    mark = re.compile("|".join(map(re.escape, [*ordered, *_MARKS])))

    def hide(text: str) -> str:
        return pattern.sub(HIDDEN, text) if mark.search(text) else text

    return hide


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
