"""Addresses of servers, and the HTTP proxies on the way: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from pytest_crucible.records.errors import SpecError

_PORTS = {"http": 80, "https": 443}
# Characters that stay as they are; % is one, so that quoted characters are not quoted again.
_PATH = "/%:@!$&'()*+,;=~"
_UNFIT = re.compile(r"[\s\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and the path under which its API is found."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""
    """A query that is appended to every path: some gateways want an API version there."""

    @property
    def origin(self) -> str:
        """Scheme, host and port; the port only if it is not the default."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        """The value of the `host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The normalised base URL: two spellings of one URL are equal here."""
        return f"{self.origin}{self.path}?{self.query}" if self.query else self.origin + self.path

    def target(self, path: str) -> str:
        """Return the request target of a path, as it stands in the request line.

        >>> parse_address("https://host/v1?api-version=1").target("/models")
        '/v1/models?api-version=1'
        """
        return f"{self.path}{path}?{self.query}" if self.query else self.path + path


def parse_address(url: str) -> Address:
    """Parse a base URL. Raises ValueError with a message for an invalid one.

    >>> parse_address("HTTP://127.0.0.1:8000/v1/").url
    'http://127.0.0.1:8000/v1'
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is not a URL ({error}): write http://HOST:PORT/v1 or https://HOST/v1") from None
    if scheme not in _PORTS or not host or port == 0 or _UNFIT.search(url):
        raise ValueError(f"{url!r} is not a URL of a server: write http://HOST:PORT/v1 or https://HOST/v1")
    if parts.username is not None:
        raise ValueError(
            "it contains a user or a password: keep them in an environment variable, named in api_key_env or headers"
        )
    if parts.fragment:
        raise ValueError(f"{url!r} has a fragment: write the URL up to /v1")
    # A request line is ASCII.
    path = quote(parts.path.rstrip("/"), safe=_PATH)
    query = quote(parts.query, safe=_PATH + "?")
    return Address(scheme, _host_name(host), port or _PORTS[scheme], path, query)


def parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a host is; None for a name.

    >>> parse_ip("fe80::1%eth0"), parse_ip("localhost")
    (IPv6Address('fe80::1'), None)
    """
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """Return a host as it is looked up: an IPv6 address with its zone after a %, or a name in ASCII.

    Raises ValueError.
    """
    if ":" in host:
        return host.replace("%25", "%")
    try:
        # Twice: the first pass may turn a full stop of another script into a dot, which makes new labels.
        return host.encode("idna").decode().encode("idna").decode()
    except UnicodeError:
        raise ValueError(f"{host!r} is not a valid host name") from None


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
