"""Redaction of keys and passwords: detected in settings by their names, and removed from texts that are stored or shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HIDDEN = "(key hidden)"
# Characters of the shortest secret. Shorter values may be ordinary words: removing them would garble texts.
SHORTEST = 6
_NAME = re.compile(
    r"(?:(?:^|[_-]|api|access|private)key|token|secret|password|passwd|authorization|credentials?|cookie)$",
    re.IGNORECASE,
)
_OF_A_TOKENIZER = re.compile(r"(?:bos|cls|end|eos|mask|pad|sep|start|stop|unk)[_-]?token$", re.IGNORECASE)
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


def is_secret(name: str) -> bool:
    """Return whether a setting of this name holds a secret.

    >>> [name for name in ("api_key", "OPENAI_API_KEY", "api_key_env", "max_tokens", "HF_TOKEN", "eos_token") if is_secret(name)]
    ['api_key', 'OPENAI_API_KEY', 'HF_TOKEN']
    """
    return _NAME.search(name) is not None and _OF_A_TOKENIZER.search(name) is None


def secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Yield the secrets in settings: values with such a name, all headers, and parts of URLs and of `--name=value`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from secrets_in(inner, "authorization" if name == "headers" else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secrets_in(inner, name)
    elif isinstance(value, str):
        candidates = [value, value.partition(" ")[2]] if is_secret(name) else [*_in_url(value), *_in_argument(value)]
        yield from (secret for secret in candidates if len(secret) >= SHORTEST and not secret.startswith("$"))


def hider(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that removes these secrets, and everything that looks like one, from a text.

    >>> hider({"tml-1"})("x-api-key: tml-1, https://me:secret@host/")
    'x-api-key: (key hidden), https://(key hidden)@host/'
    """
    # One may begin another.
    ordered = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
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


def _in_url(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        yield parts.password or ""
        yield from (value for name, value in parse_qsl(parts.query) if is_secret(name))
    except ValueError:
        # Not a URL after all, such as one with an unclosed bracket.
        return


def _in_argument(text: str) -> Iterator[str]:
    """Yield the secrets in a command line's `--name=value`."""
    name, _, value = text.partition("=")
    if name.startswith("-"):
        yield from secrets_in(value, name)
