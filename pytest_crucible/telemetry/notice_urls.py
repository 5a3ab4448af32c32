"""Parts of a message's URL: its host, which may be shown, and those to redact."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from contextlib import suppress

# Parts of a token's length; shorter ones are words such as `hooks`, and letters alone are names.
_A_TOKEN = 8
_NAME = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,24}\.?", re.IGNORECASE)


def public_host(url: str) -> str:
    """Return the host of a URL; empty where the URL names no host, but begins with a token.

    >>> public_host("https://me:pw@hooks1.example.com:8443/T0KEN"), public_host("slack://T0KENAAAA/B0KENBBB")
    ('hooks1.example.com', '')
    """
    place = _place(url).rpartition("@")[2]
    host = place[1 : place.find("]")] if place.startswith("[") else place.partition(":")[0]
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    return host if host.lower() == "localhost" or _NAME.fullmatch(host) else ""


def secret_parts(url: str) -> Iterator[str]:
    """Yield the texts to redact for a URL: the whole URL, and its parts that look like tokens. Its host is not one.

    >>> list(secret_parts("slack://T0KENAAAA/B0KENBBB"))
    ['slack://T0KENAAAA/B0KENBBB', 'T0KENAAAA/B0KENBBB', 'T0KENAAAA', 'B0KENBBB']
    >>> list(secret_parts("json://10.0.0.12:8080/")), list(secret_parts("json://10.0.0.12/r00m-t0ken"))[2:]
    ([], ['r00m-t0ken'])
    """
    rest, host = url.partition("://")[2], public_host(url)
    if host and "@" not in rest and rest.removeprefix(_place(url)) in ("", "/"):
        return
    yield url
    if rest:
        yield rest
    parts = re.split(r"[/?&=@:\[\]#]", rest)
    yield from (part for part in parts if len(part) >= _A_TOKEN and re.search(r"\d", part) and part != host)


def _place(url: str) -> str:
    """Return the part of a URL before its path: user, password, host and port."""
    return re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]
