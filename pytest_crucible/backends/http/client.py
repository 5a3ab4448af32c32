"""HTTP clients for one server: connections are reused, opened on demand, and closed with the loop at the latest."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from pytest_crucible.backends.http.address import Address, Proxy, parse_ip, proxy_for
from pytest_crucible.backends.http.connection import (
    CONNECT_S,
    IDLE_S,
    Connection,
    Response,
    Watch,
    connection_error,
    tls_context,
)
from pytest_crucible.records.errors import Refused, Retryable, SpecError
from pytest_crucible.records.object_reference import import_function

# If a host has several addresses and one does not answer, the next is tried after this time (RFC 8305).
_NEXT_ADDRESS_S = 0.25


class Client:
    """Sends requests with the same headers to one server, each on a connection of its own.

    It may be used from several loops, one after the other; connections are closed when their loop ends, or by `close`.
    """

    def __init__(
        self, address: Address, headers: Mapping[str, str], max_body: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """`max_body` is the longest body that is read, in bytes. Raises SpecError for an invalid proxy in the environment."""
        self._address = address
        self._max_body = max_body
        self._tls = tls
        self._proxy = proxy_for(address)
        self._headers = self._format_headers(headers)
        # Formatting the request line for each request would be a measurable part of its cost.
        self._line = functools.cache(self._request_line)
        self._idle: list[Connection] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: AsyncGenerator[None, None] | None = None
        self._reached = False

    def post(self, path: str, body: bytes, watch: Watch | None = None) -> Awaitable[Response]:
        """Send a POST request and return the response, whatever its status. `watch` receives an event stream as it arrives.

        Raises Retryable if the response is incomplete, Refused if the server cannot be used at all.
        """
        return self._exchange(self._line(path) + b"%d\r\n\r\n%b" % (len(body), body), watch)

    async def close(self) -> None:
        """Close idle connections."""
        if self._ending is not None and self._loop is asyncio.get_running_loop():
            ending, self._ending, self._loop = self._ending, None, None
            await ending.aclose()

    async def _exchange(self, request: bytes, watch: Watch | None) -> Response:
        if self._loop is not asyncio.get_running_loop():
            await self._enter_loop(asyncio.get_running_loop())
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

    # -- connections --------------------------------------------------------------------------------------------

    async def _enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._idle = loop, []
        self._ending = _close_with_loop(self._idle)
        await anext(self._ending)

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
        try:
            async with asyncio.timeout(CONNECT_S):
                connection = await (self._open_tunnel(self._proxy) if self._proxy else self._open_direct())
        except OSError as error:
            raise self._connection_error(error) from None
        self._reached = True
        return connection

    async def _open_direct(self) -> Connection:
        address = self._address
        return await self._connect(address.host, address.port, self._tls if address.scheme == "https" else None)

    async def _open_tunnel(self, proxy: Proxy) -> Connection:
        connection = await self._connect(proxy.host, proxy.port, None)
        if self._address.scheme == "http":
            return connection
        where = f"{self._address.host}:{self._address.port}"
        opening = f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{_authorization(proxy)}\r\n"
        answer = await connection.tunnel(opening.encode("latin-1"))
        if answer.status != 200:
            connection.close()
            kind = Refused if answer.status in (401, 403, 407) else None
            message = f"the proxy {proxy.host}:{proxy.port} refuses to connect to {where} (status {answer.status})"
            raise kind(message) if kind else Retryable(message, kind=str(answer.status))
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
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(where, self._max_body), host, port, ssl=tls, happy_eyeballs_delay=_next_address_s(host)
        )
        # A connection that idles behind a NAT is dropped without notice; keep-alive finds out.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    def _connection_error(self, error: OSError) -> Refused | Retryable:
        origin, proxy = self._address.origin, self._proxy
        where = origin if proxy is None else f"the proxy {proxy.host}:{proxy.port}"
        return connection_error(error, origin, where, reached=self._reached)

    # -- what is sent -------------------------------------------------------------------------------------------

    def _format_headers(self, headers: Mapping[str, str]) -> str:
        lines = {"host": self._address.netloc, **headers}
        return "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    def _request_line(self, path: str) -> bytes:
        address, proxy = self._address, self._proxy
        plain = proxy is not None and address.scheme == "http"
        target = (address.origin if plain else "") + address.target(path)
        credentials = _authorization(proxy) if plain and proxy else ""
        return f"POST {target} HTTP/1.1\r\n{self._headers}{credentials}content-length: ".encode("latin-1")


def _authorization(proxy: Proxy) -> str:
    return f"proxy-authorization: {proxy.authorization}\r\n" if proxy.authorization else ""


def _next_address_s(host: str) -> float | None:
    """Return the Happy Eyeballs delay; None for an IP address.

    An address has no alternative, and looking for one takes as long as connecting.

    >>> [_next_address_s(host) for host in ("api.example.com", "localhost", "127.0.0.1", "::1")]
    [0.25, 0.25, None, None]
    """
    return None if parse_ip(host) else _NEXT_ADDRESS_S


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


class HttpClient(Protocol):
    """Sends requests with the same headers to one server. Failures are the errors of `pytest_crucible.records.errors`."""

    def post(self, path: str, body: bytes, watch: Watch | None = None) -> Awaitable[Response]: ...

    async def close(self) -> None: ...


def open_default(
    address: Address, headers: Mapping[str, str], *, max_body: int, verify: bool, ca_file: Path | None, client: str
) -> HttpClient:
    """Return this package's own client."""
    tls = tls_context(verify=verify, ca_file=ca_file) if address.scheme == "https" else None
    return Client(address, headers, max_body, tls)


def open_httpx(
    address: Address, headers: Mapping[str, str], *, max_body: int, verify: bool, ca_file: Path | None, client: str
) -> HttpClient:
    """Return a client on httpx, or on the `httpx.AsyncClient` that the function `client` ("module:function") returns."""
    try:
        from pytest_crucible.backends.http.httpx_client import HttpxClient, build_client
    except ModuleNotFoundError as error:
        raise SpecError(
            'transport = "httpx" needs httpx, which is not installed: pip install "pytest-crucible[httpx]"'
        ) from error
    tls = tls_context(verify=verify, ca_file=ca_file)
    return HttpxClient(
        address,
        headers,
        max_body,
        import_function("an adapter has client =", client) if client else lambda: build_client(tls),
    )


TRANSPORTS: Mapping[str, Callable[..., HttpClient]] = {"default": open_default, "httpx": open_httpx}
