"""Keys and passwords: found in settings by their names, and taken out of texts before anybody else reads these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

HIDDEN = "(key hidden)"
SHORTEST = 6
"""Shorter values are words that may stand anywhere: to take them out would garble texts, and they protect nothing."""
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
    *(f"xox{one}" for one in "abprs"),
)
_SHAPED = (
    r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"  # a JSON Web Token
    rf"|\b(?:{'|'.join(_SERVICES)})[-_][\w-]{{16,}}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
)
"""What looks like a key of a well-known service, whosever it is."""
_MARKS = ("://", "eyJ", "AKIA", "AIza", *(f"{one}{dash}" for one in _SERVICES for dash in "-_"))
"""One of these is in every text that has such a key: to look for them is quicker."""
_USER = r"(?<=://)[^/\s@'\"]+:[^/\s@'\"]+(?=@)"
"""User and password of a URL."""


def is_secret(name: str) -> bool:
    """Does a setting of this name hold a key?

    >>> [name for name in ("api_key", "OPENAI_API_KEY", "api_key_env", "max_tokens", "HF_TOKEN", "eos_token") if is_secret(name)]
    ['api_key', 'OPENAI_API_KEY', 'HF_TOKEN']
    """
    return _NAME.search(name) is not None and _OF_A_TOKENIZER.search(name) is None


def secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """The keys in settings: values with such a name, all headers, and those inside of URLs and of `--name=value`."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from secrets_in(inner, "authorization" if name == "headers" else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from secrets_in(inner, name)
    elif isinstance(value, str):
        found = [value, value.partition(" ")[2]] if is_secret(name) else [*_in_url(value), *_in_argument(value)]
        yield from (one for one in found if len(one) >= SHORTEST and not one.startswith("$"))


def hider(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """A function that takes these keys out of a text, and all that looks like one.

    >>> hider({"tml-1"})("x-api-key: tml-1, https://me:secret@host/")
    'x-api-key: (key hidden), https://(key hidden)@host/'
    """
    known = sorted({one for one in secrets if one}, key=len, reverse=True)  # one may begin another
    pattern = re.compile("|".join([*map(re.escape, known), _SHAPED, _USER]))
    mark = re.compile("|".join(map(re.escape, [*known, *_MARKS])))

    def hide(text: str) -> str:
        return pattern.sub(HIDDEN, text) if mark.search(text) else text

    return hide


def cleaned(data: Any, hide: Callable[[str], str]) -> Any:
    """What JSON says, with every text in it hidden."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        return {name: cleaned(value, hide) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return type(data)(cleaned(one, hide) for one in data)
    return data


def _in_url(text: str) -> Iterator[str]:
    if "://" not in text:
        return
    try:
        parts = urlsplit(text)
        yield parts.password or ""
        yield from (value for name, value in parse_qsl(parts.query) if is_secret(name))
    except ValueError:  # no URL after all
        return


def _in_argument(text: str) -> Iterator[str]:
    """Of a command line: `--name=value`."""
    name, _, value = text.partition("=")
    if name.startswith("-"):
        yield from secrets_in(value, name)
