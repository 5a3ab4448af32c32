"""HTTP/1.1 on the loopback interface: as much of it as API clients speak, with a limit on everything.

Requests come with Content-Length and one at a time on a connection, which is kept open. What is malformed, too large or too
slow is answered with a sentence and ends its connection, never the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, cast

from pytest_crucible.embedded.server.messages import Refusal, Request, Response

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Refuse: TypeAlias = Callable[[Refusal], Response]

LOOPBACK = "127.0.0.1"
_END_OF_HEAD = b"\r\n\r\n"
_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may take."""

    head_bytes: int = 32 * 1024
    body_bytes: int = 64 * 1024 * 1024
    request_s: float = 60.0
    """From the first byte of a request to its last."""
    idle_s: float = 600.0
    connections: int = 1000
    linger_s: float = 2.0
    """How long a refused client may go on sending before its connection is cut: a reset would take the answer from it."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    request: Request
    length: int
    keep_alive: bool


class Server:
    """Listens until it is closed; `handler` answers each request, `refuse` words what never reaches it."""

    def __init__(self, handler: Handler, refuse: Refuse, limits: Limits) -> None:
        self.handler, self.refuse, self.limits = handler, refuse, limits
        self.connections: set[Connection] = set()
        self.closing = False

    async def start(self, port: int = 0) -> int:
        """Bind the loopback interface and return the port."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(lambda: Connection(self), LOOPBACK, port, backlog=512)
        self._watch = asyncio.create_task(self._cut_the_slow())
        return cast(int, self._listening.sockets[0].getsockname()[1])

    async def close(self, patience_s: float = 1.0) -> None:
        """Take no more requests, let the answers that are due go out, then close every connection."""
        self.closing = True
        self._watch.cancel()
        self._listening.close()
        if due := [connection.answering for connection in self.connections if connection.answering]:
            await asyncio.wait(due, timeout=patience_s)
        for connection in tuple(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listening.wait_closed(), patience_s)

    async def _cut_the_slow(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.connections):
                connection.cut_when_late(now)


class Connection(asyncio.Protocol):
    """One client's connection: collects a request, has it answered, goes on with the next."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.answering: asyncio.Task[None] | None = None
        self._received = bytearray()
        self._head: Head | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._late_at = self._loop.time() + self.server.limits.idle_s
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.limits.connections:
            self._refuse(Refusal(HTTPStatus.TOO_MANY_REQUESTS, "this server has too many open connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        if self.answering:
            self.answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._received and not self._head:
            self._late_at = self._loop.time() + self.server.limits.request_s
        self._received += data
        if self.answering:
            self._transport.pause_reading()  # the next request waits in the socket until this one is answered
        else:
            self._advance()

    def cut_when_late(self, now: float) -> None:
        """Close when nothing came for too long; what is being answered is not late."""
        if self.answering or now < self._late_at:
            return
        if self._received or self._head:
            self._refuse(Refusal(HTTPStatus.REQUEST_TIMEOUT, "the request took too long to arrive"))
        else:
            self.close()

    def close(self) -> None:
        """Close after what was written has gone out."""
        self._transport.close()

    def _advance(self) -> None:
        try:
            if self._head is None:
                self._head = self._take_head()
            if self._head is None or len(self._received) < self._head.length:
                return
        except Refusal as refusal:
            self._refuse(refusal)
            return
        head, self._head = self._head, None
        body = bytes(self._received[: head.length])
        del self._received[: head.length]
        request = Request(head.request.method, head.request.path, head.request.query, head.request.headers, body)
        self.answering = self._loop.create_task(self._answer(request, head.keep_alive))

    def _take_head(self) -> Head | None:
        limits = self.server.limits
        end = self._received.find(_END_OF_HEAD, 0, limits.head_bytes)
        if end < 0:
            if len(self._received) >= limits.head_bytes:
                sentence = f"the headers are longer than {limits.head_bytes} bytes"
                raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, sentence)
            return None
        head = parse_head(self._received[:end].decode("latin-1"))
        del self._received[: end + len(_END_OF_HEAD)]
        if head.length > limits.body_bytes:
            sentence = f"the body has {head.length} bytes, at most {limits.body_bytes} are taken"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        if head.length and head.request.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return head

    async def _answer(self, request: Request, keep_alive: bool) -> None:
        response = await self.server.handler(request)
        close = response.close or not keep_alive or self.server.closing
        self._transport.write(response.to_bytes(close=close, without_body=request.method == "HEAD"))
        self.answering = None
        self._late_at = self._loop.time() + self.server.limits.idle_s
        if close:
            self.close()
        else:
            self._transport.resume_reading()
            self._advance()

    def _refuse(self, refusal: Refusal) -> None:
        self._refused = True
        self._received.clear()
        self._transport.write(self.server.refuse(refusal).to_bytes(close=True))
        self._loop.call_later(self.server.limits.linger_s, self.close)


def parse_head(text: str) -> Head:
    r"""Read the request line and the headers; what is no HTTP/1.x raises a Refusal.

    >>> head = parse_head("POST /api/v1/x?limit=3 HTTP/1.1\r\nContent-Length: 2")
    >>> head.request.path, head.request.query, head.length, head.keep_alive
    ('/api/v1/x', 'limit=3', 2, True)
    """
    first, *lines = text.split("\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"no HTTP/1.1 request starts with {first[:80]!r}")
    headers: dict[str, str] = {}
    for one in lines:
        name, colon, value = one.partition(":")
        name = name.lower()
        if not (colon and _HEADER_NAME.fullmatch(name)) or (name == "content-length" and name in headers):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"no header can be read from {one[:80]!r}")
        headers[name] = value.strip(" \t")
    path, _, query = line[2].partition("?")
    connection = headers.get("connection", "keep-alive" if line[3] == "1" else "close").lower()
    return Head(Request(line[1], path, query, headers), _length(headers), keep_alive="close" not in connection)


def _length(headers: dict[str, str]) -> int:
    if "transfer-encoding" in headers:
        raise Refusal(HTTPStatus.LENGTH_REQUIRED, "a body must come with Content-Length, not in chunks")
    given = headers.get("content-length", "0")
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise Refusal(HTTPStatus.BAD_REQUEST, f"Content-Length {given[:40]!r} is no number of bytes")
    return int(given)
