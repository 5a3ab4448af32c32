"""HTTP proxies from the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from pytest_crucible.backends.http.address import Address, parse_address, parse_ip
from pytest_crucible.records.errors import SpecError


@dataclass(frozen=True, slots=True)
class Proxy:
    """Address of a proxy, and the credentials for it."""

    host: str
    port: int
    authorization: str = ""
    """The value of the `proxy-authorization` header, or empty."""


def proxy_for(address: Address) -> Proxy | None:
    """Return the proxy for a server; None to connect directly. Raises SpecError for an invalid proxy."""
    from urllib.request import getproxies, proxy_bypass  # slow to import, and needed once a server

    proxies = getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    # Python's own bypass knows names and addresses; networks such as 10.0.0.0/8 are ours.
    if not url or any(map(proxy_bypass, (address.host, address.netloc))) or _is_within(address.host, proxies):
        return None
    return read_proxy(url)


def _is_within(host: str, proxies: Mapping[str, str]) -> bool:
    """Return whether NO_PROXY contains a network of the host's address; Python itself only reads names and addresses.

    >>> _is_within("10.1.2.3", {"no": "localhost, 10.0.0.0/8"})
    True
    """
    address = parse_ip(host)
    networks = map(_network, proxies.get("no", "").split(","))
    return address is not None and any(address in network for network in networks if network is not None)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip(), strict=False) if "/" in text else None
    except ValueError:
        return None


def read_proxy(url: str) -> Proxy:
    """Parse a proxy's URL; the default scheme is http.

    >>> read_proxy("proxy.example:3128")
    Proxy(host='proxy.example', port=3128, authorization='')
    """
    scheme, _, rest = url.strip().rpartition("://")
    login, _, server = rest.rpartition("@")
    where = f"{scheme or 'http'}://{server}"
    try:
        address = parse_address(where)
    except ValueError:
        address = None
    if address is None or address.scheme != "http" or address.query:
        raise SpecError(
            f"the environment names a proxy at {where}; expected http://HOST:PORT: correct it, or set NO_PROXY"
        )
    if not login:
        return Proxy(address.host, address.port)
    user, _, password = login.partition(":")
    secret = f"{unquote(user)}:{unquote(password)}".encode()
    return Proxy(address.host, address.port, f"Basic {base64.b64encode(secret).decode()}")
