"""The proxy that stands before a server, as the environment says: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pytest_crucible.backends.http.address import Address
from pytest_crucible.errors import SpecError


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it is, and the header that opens it."""

    host: str
    port: int
    authorization: str = ""
    """The value of `proxy-authorization`, or empty."""


def proxy_for(address: Address) -> Proxy | None:
    """None for a server that is asked directly. Raises SpecError for a proxy that cannot be spoken to."""
    from urllib.request import getproxies, proxy_bypass  # slow to import, and asked once a server

    found = getproxies()
    url = found.get(address.scheme) or found.get("all")
    if not url or proxy_bypass(address.host):
        return None
    return read_proxy(url)


def read_proxy(url: str) -> Proxy:
    """Read a proxy's URL; without a scheme it is http.

    >>> read_proxy("proxy.example:3128")
    Proxy(host='proxy.example', port=3128, authorization='')
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port:
        where = f"{parts.scheme}://{parts.hostname or ''}"
        raise SpecError(
            f"the environment names a proxy at {where}, wanted http://HOST:PORT: correct it, or set NO_PROXY"
        )
    if parts.username is None:
        return Proxy(parts.hostname, port)
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return Proxy(parts.hostname, port, f"Basic {base64.b64encode(secret).decode()}")
