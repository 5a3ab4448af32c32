"""Where a server is: the parts of a base URL."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

_PORTS = {"http": 80, "https": 443}
_PATH = "/%:@!$&'()*+,;=~"
"""What is left as it is; what has been quoted is not quoted again."""
_UNFIT = re.compile(r"[\s\x00-\x20\x7f]")


@dataclass(frozen=True, slots=True)
class Address:
    """A server, and the path below which it answers."""

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""
    """What follows every path, behind a question mark: some gateways want a version there."""

    @property
    def origin(self) -> str:
        """Scheme, host and port, the port only where it is not the usual one."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        """As the header `host` has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Two spellings of one base URL are equal here."""
        return f"{self.origin}{self.path}?{self.query}" if self.query else self.origin + self.path

    def target(self, path: str) -> str:
        """What a line of HTTP asks for.

        >>> address_of("https://host/v1?api-version=1").target("/models")
        '/v1/models?api-version=1'
        """
        return f"{self.path}{path}?{self.query}" if self.query else self.path + path


def address_of(url: str) -> Address:
    """Read a base URL. Raises ValueError with a sentence for one that cannot be meant.

    >>> address_of("HTTP://127.0.0.1:8000/v1/").url
    'http://127.0.0.1:8000/v1'
    """
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"{url!r} is no URL ({error}): write http://HOST:PORT/v1 or https://HOST/v1") from None
    if scheme not in _PORTS or not host or port == 0 or _UNFIT.search(url):
        raise ValueError(f"{url!r} is no URL of a server: write http://HOST:PORT/v1 or https://HOST/v1")
    if parts.username is not None:
        raise ValueError("it has a user or a password in it: name an environment variable in api_key_env or headers")
    if parts.fragment:
        raise ValueError(f"{url!r} has a fragment: write the URL up to /v1")
    path = quote(parts.path.rstrip("/"), safe=_PATH)  # what is no ASCII cannot stand in a line of HTTP
    query = quote(parts.query, safe=_PATH + "?")
    return Address(scheme, _known_name(host), port or _PORTS[scheme], path, query)


def ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """None for a name.

    >>> ip_address("fe80::1%eth0"), ip_address("localhost")
    (IPv6Address('fe80::1'), None)
    """
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _known_name(host: str) -> str:
    """As it is looked up: an address of IPv6 as it is, with its zone behind a %, and a name in ASCII. Raises ValueError."""
    if ":" in host:
        return host.replace("%25", "%")
    try:
        return (
            host.encode("idna").decode().encode("idna").decode()
        )  # again: a full stop of another script has become one
    except UnicodeError:
        raise ValueError(f"{host!r} is no name of a host") from None
