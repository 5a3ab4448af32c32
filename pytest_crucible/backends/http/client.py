"""A client of one server: connections that are kept, opened when they are needed, and closed with the loop at the latest."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Mapping

from pytest_crucible.backends.http.address import Address, ip_address
from pytest_crucible.backends.http.connection import Connection, Response, Watch
from pytest_crucible.backends.http.proxies import Proxy, proxy_for
from pytest_crucible.backends.http.tls import sentence
from pytest_crucible.errors import Refused, Retryable

CONNECT_S = 15.0
"""How long opening a connection may take."""
IDLE_S = 4.0
"""A connection that was not used for so long is not used again: many servers close theirs after five seconds, and a request
that meets the closing is lost."""
_NEXT_ADDRESS_S = 0.25
"""When a host has several addresses and one does not answer, after how long the next is tried (RFC 8305)."""


class Client:
    """Sends requests with the same headers to paths of one server, each on a connection of its own.

    It can be used from one loop after another; what is open on a loop is closed when the loop ends, or by `close`.
    """

    def __init__(self, address: Address, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        """Raises SpecError for a proxy in the environment that cannot be spoken to."""
        self._address = address
        self._tls = tls
        self._proxy = proxy_for(address)
        self._headers = self._written(headers)
        self._line = functools.cache(self._written_line)
        self._idle: list[Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: AsyncGenerator[None, None] | None = None
        self._reached = False

    def post(self, path: str, body: bytes, watch: Watch | None = None) -> Awaitable[Response]:
        """The answer, whatever its status. `watch` sees its body come.

        Raises Retryable for an answer that did not come whole, Refused for a server that cannot be spoken to.
        """
        return self._exchange(self._line("POST", path) + b"%d\r\n\r\n%b" % (len(body), body), watch)

    def get(self, path: str) -> Awaitable[Response]:
        """The same, without a body to send."""
        return self._exchange(self._line("GET", path) + b"0\r\n\r\n", None)

    async def close(self) -> None:
        """Close what is idle."""
        if self._ending is not None and self._loop is asyncio.get_running_loop():
            ending, self._ending, self._loop = self._ending, None, None
            await ending.aclose()

    async def _exchange(self, request: bytes, watch: Watch | None) -> Response:
        if self._loop is not asyncio.get_running_loop():
            await self._settle_on(asyncio.get_running_loop())
        idle = self._idle
        connection = self._kept() or await self._opened()
        response = await connection.ask(request, watch)
        if connection.reusable:
            connection.idle_since = time.monotonic()
            idle.append(connection)
        else:
            connection.close()
        return response

    # -- connections --------------------------------------------------------------------------------------------

    async def _settle_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._idle = loop, []
        self._ending = _closing_at_the_end(self._idle)
        await anext(self._ending)

    def _kept(self) -> Connection | None:
        """The one that was used last: the others may grow old and end."""
        oldest = time.monotonic() - IDLE_S
        while self._idle:
            connection = self._idle.pop()
            if connection.open and connection.idle_since >= oldest:
                return connection
            connection.close()
        return None

    async def _opened(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_S):
                connection = await (self._through(self._proxy) if self._proxy else self._directly())
        except OSError as error:
            raise self._unreachable(error) from None
        self._reached = True
        return connection

    async def _directly(self) -> Connection:
        address = self._address
        return await self._connected(address.host, address.port, self._tls if address.scheme == "https" else None)

    async def _through(self, proxy: Proxy) -> Connection:
        connection = await self._connected(proxy.host, proxy.port, None)
        if self._address.scheme == "http":
            return connection
        where = f"{self._address.host}:{self._address.port}"
        opening = f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{_authorization(proxy)}\r\n"
        answer = await connection.tunnel(opening.encode("latin-1"))
        if answer.status != 200:
            connection.close()
            kind = Refused if answer.status in (401, 403, 407) else None
            said = f"the proxy {proxy.host}:{proxy.port} does not let through to {where} (status {answer.status})"
            raise kind(said) if kind else Retryable(said, kind=str(answer.status))
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

    async def _connected(self, host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
        where = self._address.origin
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(where), host, port, ssl=tls, happy_eyeballs_delay=_next_address_s(host)
        )
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _unreachable(self, error: OSError) -> Refused | Retryable:
        """What was never reached is named wrongly; what was reached before is away for a moment."""
        where = self._address.origin if self._proxy is None else f"the proxy {self._proxy.host}:{self._proxy.port}"
        if isinstance(error, ssl.SSLCertVerificationError) or (isinstance(error, ssl.SSLError) and not self._reached):
            return Refused(sentence(error, self._address.origin))
        if isinstance(error, socket.gaierror) and not self._reached:
            return Refused(f"there is no host of the name in {where} ({error.strerror}): check the URL and the network")
        if isinstance(error, TimeoutError):
            return Retryable(f"{where} did not take a connection within {CONNECT_S:g} s", kind="timeout")
        if f"[Errno {errno.ECONNREFUSED}]" in str(error):  # of one address, or of each of several
            return Retryable(f"nothing listens at {where}: is the server running?", kind="connection")
        return Retryable(f"{where} cannot be reached: {error.strerror or error}", kind="connection")

    # -- what is sent -------------------------------------------------------------------------------------------

    def _written(self, headers: Mapping[str, str]) -> str:
        lines = {"host": self._address.netloc, **headers}
        return "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def _written_line(self, method: str, path: str) -> bytes:
        address, proxy = self._address, self._proxy
        plain = proxy is not None and address.scheme == "http"
        target = (address.origin if plain else "") + address.target(path)
        opened = _authorization(proxy) if plain and proxy else ""
        return f"{method} {target} HTTP/1.1\r\n{self._headers}{opened}content-length: ".encode("latin-1")


def _authorization(proxy: Proxy) -> str:
    return f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""


def _next_address_s(host: str) -> float | None:
    """Of one that is an address itself there is no other, and to look for it takes as long as to connect.

    >>> [_next_address_s(host) for host in ("api.example.com", "localhost", "127.0.0.1", "::1")]
    [0.25, 0.25, None, None]
    """
    return None if ip_address(host) else _NEXT_ADDRESS_S


async def _closing_at_the_end(idle: list[Connection]) -> AsyncGenerator[None, None]:
    """A loop that ends lets its async generators end first: that is the moment to close what is open on it."""
    try:
        yield
    finally:
        for connection in idle:
            connection.close()
        idle.clear()
        for _ in range(2):  # the transports, and the sockets below them
            await asyncio.sleep(0)
