"""The proxy that stands before a server, as the environment says: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pytest_crucible.backends.http.address import Address, address_of, ip_address
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
    if not url or any(map(proxy_bypass, (address.host, address.netloc))) or _is_within(address.host, found):
        return None
    return read_proxy(url)


def _is_within(host: str, found: Mapping[str, str]) -> bool:
    """Does NO_PROXY name a network that a host's address is in? Python itself reads names and addresses only.

    >>> _is_within("10.1.2.3", {"no": "localhost, 10.0.0.0/8"})
    True
    """
    address = ip_address(host)
    networks = map(_network, found.get("no", "").split(","))
    return address is not None and any(address in network for network in networks if network is not None)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip(), strict=False) if "/" in text else None
    except ValueError:
        return None


def read_proxy(url: str) -> Proxy:
    """Read a proxy's URL; without a scheme it is http.

    >>> read_proxy("proxy.example:3128")
    Proxy(host='proxy.example', port=3128, authorization='')
    """
    scheme, _, rest = url.strip().rpartition("://")
    login, _, server = rest.rpartition("@")
    where = f"{scheme or 'http'}://{server}"
    try:
        address = address_of(where)
    except ValueError:
        address = None
    if address is None or address.scheme != "http" or address.query:
        raise SpecError(
            f"the environment names a proxy at {where}, wanted http://HOST:PORT: correct it, or set NO_PROXY"
        )
    if not login:
        return Proxy(address.host, address.port)
    user, _, password = login.partition(":")
    secret = f"{unquote(user)}:{unquote(password)}".encode()
    return Proxy(address.host, address.port, f"Basic {base64.b64encode(secret).decode()}")
