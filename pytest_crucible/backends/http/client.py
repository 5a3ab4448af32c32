"""Addresses, proxies and the HTTP client for one server: connections are reused, and closed with the loop at the latest."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import ipaddress
import os
import re
import socket
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping
from urllib.parse import quote, unquote, urlsplit

from pytest_crucible.backends.http.connection import (
    CONNECT_S,
    IDLE_S,
    Connection,
    Response,
    Watch,
    connection_error,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import Refused, Retryable, SpecError

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


def is_loopback(host: str) -> bool:
    address = parse_ip(host)
    return address.is_loopback if address else host == "localhost"


def _host_name(host: str) -> str:
    """Return a host as it is looked up: an IPv6 address with its zone after a %, or a name in ASCII. Raises ValueError."""
    if ":" in host:
        return host.replace("%25", "%")
    if parse_ip(host) is not None:
        return host
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


def proxy_for(address: Address) -> Proxy | None:
    """Return the proxy for a server; None to connect directly. Raises SpecError for an invalid proxy."""
    # On Linux proxies are variables alone, and urllib.request takes longer to import than a request takes.
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    # Python's own bypass knows names and addresses; networks such as 10.0.0.0/8 are ours.
    if not url or any(map(proxy_bypass, (address.host, address.netloc))) or _is_within(address.host, proxies):
        return None
    return read_proxy(url)


def _is_within(host: str, proxies: Mapping[str, str]) -> bool:
    """Return whether NO_PROXY contains a network of the host's address; Python itself only reads names and addresses."""
    address = parse_ip(host)
    for text in proxies.get("no", "").split(",") if address else ():
        with contextlib.suppress(ValueError):
            if "/" in text and address in ipaddress.ip_network(text.strip(), strict=False):
                return True
    return False


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


# If a host has several addresses and one does not answer, the next is tried after this time (RFC 8305).
_NEXT_ADDRESS_S = 0.25


class Client:
    """Sends requests to one server, each on its own connection; from several loops, one after the other."""

    def __init__(
        self, address: Address, headers: Mapping[str, str], max_body: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """`max_body` is the longest body that is read, in bytes. Raises SpecError for an invalid proxy in the environment."""
        self._address, self._max_body = address, max_body
        self._tls = tls if address.scheme == "https" else None
        self._proxy = proxy_for(address)
        lines = {"host": address.netloc, **headers}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        # Formatting the request line for each request would be a measurable part of its cost.
        self._line = functools.cache(self._request_line)
        self._idle: list[Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: AsyncGenerator[None, None] | None = None
        self._reached = False

    def post(self, path: str, body: bytes, watch: Watch | None = None) -> Awaitable[Response]:
        """Send a POST request and return the response of any status; `watch` receives an event stream. Raises BackendError."""
        return self._exchange(self._line(path) + b"%d\r\n\r\n%b" % (len(body), body), watch)

    async def close(self) -> None:
        if self._ending is not None and self._loop is asyncio.get_running_loop():
            ending, self._ending, self._loop = self._ending, None, None
            await ending.aclose()

    async def _exchange(self, request: bytes, watch: Watch | None) -> Response:
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._idle = asyncio.get_running_loop(), []
            self._ending = _close_with_loop(self._idle)
            await anext(self._ending)
        idle = self._idle
        # One request at a time on a connection: no pipelining, which many servers handle badly.
        connection = self._pop_idle() or await self._open()
        response = await connection.send(request, watch)
        if connection.reusable:
            connection.idle_since = time.monotonic()
            idle.append(connection)
        else:
            connection.close()
        return response

    def _pop_idle(self) -> Connection | None:
        """Return the connection that was used last: older ones may time out unused."""
        oldest = time.monotonic() - IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _open(self) -> Connection:
        address, proxy = self._address, self._proxy
        try:
            async with asyncio.timeout(CONNECT_S):
                if proxy:
                    connection = await self._open_tunnel(proxy)
                else:
                    connection = await self._connect(address.host, address.port, self._tls)
        except OSError as error:
            where = address.origin if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
            raise connection_error(error, address.origin, where, reached=self._reached) from None
        self._reached = True
        return connection

    async def _open_tunnel(self, proxy: Proxy) -> Connection:
        connection = await self._connect(proxy.host, proxy.port, None)
        if self._address.scheme == "http":
            return connection
        where = f"{self._address.host}:{self._address.port}"
        opening = f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{_authorization(proxy)}\r\n"
        answer = await connection.tunnel(opening.encode("latin-1"))
        if answer.status != 200:
            connection.close()
            message = f"the proxy {proxy.host}:{proxy.port} refuses to connect to {where} (status {answer.status})"
            is_final = answer.status in (401, 403, 407)
            raise Refused(message) if is_final else Retryable(message, kind=str(answer.status))
        assert self._tls is not None
        loop, host = asyncio.get_running_loop(), self._address.host
        try:
            transport = await loop.start_tls(connection.transport, connection, self._tls, server_hostname=host)
        except BaseException:
            connection.close()
            raise
        assert transport is not None
        connection.connection_made(transport)
        return connection

    async def _connect(self, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
        where = self._address.origin
        # An IP address has no alternative, and looking for one takes as long as connecting.
        delay = None if parse_ip(host) else _NEXT_ADDRESS_S
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(where, self._max_body), host, port, ssl=tls, happy_eyeballs_delay=delay
        )
        # A connection that idles behind a NAT is dropped without notice; keep-alive finds out.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _request_line(self, path: str) -> bytes:
        address, proxy = self._address, self._proxy
        plain = proxy is not None and address.scheme == "http"
        target = (address.origin if plain else "") + address.target(path)
        credentials = _authorization(proxy) if plain and proxy else ""
        return f"POST {target} HTTP/1.1\r\n{self._headers}{credentials}content-length: ".encode("latin-1")


def _authorization(proxy: Proxy) -> str:
    return f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""


async def _close_with_loop(idle: list[Connection]) -> AsyncGenerator[None, None]:
    """Close idle connections when their loop ends: a loop closes its async generators first."""
    try:
        yield
    finally:
        for connection in idle:
            connection.close()
        idle.clear()
        # One turn for the transports, one for their sockets.
        for _ in range(2):
            await asyncio.sleep(0)
