"""HTTP/1.1 on the loopback interface: the part of it that API clients use, with a limit on everything.

Requests have a Content-Length and come one at a time on a connection, which is kept open. A malformed, too large or too slow
request gets an error response and ends its connection, never the server. A refusal becomes a response.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import math
import re
import socket
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import field
from http import HTTPStatus
from types import EllipsisType
from typing import Any, TypeAlias, TypeVar, cast
from urllib.parse import parse_qs

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import describe_json_type

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
T = TypeVar("T")
_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Refusal(Exception):
    """Ends a request with a status and a message: what was given, what was expected."""

    def __init__(self, sentence: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, code: str | None = None) -> None:
        """`code` is OpenAI's specific error code, if there is one."""
        super().__init__(sentence)
        self.status, self.sentence, self.code = status, sentence, code


class NotFound(Refusal):
    """The requested thing does not exist: status 404."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, HTTPStatus.NOT_FOUND)


class Body(dict[str, Json]):
    """The fields of a JSON object; an invalid one is refused with its name.

    A field that is absent or null has its default; the default `...` means that it is required.

    >>> Body({"session_id": "s"}).text("session_id")
    's'
    """

    def text(self, name: str, default: str | EllipsisType = ...) -> str:
        return self._read(name, str, "a string", default)

    def optional_text(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def whole(self, name: str, default: int | EllipsisType = ..., *, least: int = 0, most: int = 2**63 - 1) -> int:
        value = self._read(name, int, "a whole number", default)
        if not least <= value <= most:
            raise _wrong(name, f"between {least} and {most}", value)
        return value

    def optional_whole(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
        """Return a whole number within bounds; None if absent."""
        return None if self.get(name) is None else self.whole(name, least=least, most=most)

    def number(self, name: str, default: float | EllipsisType = ..., *, least: float = -math.inf) -> float:
        """Return a finite number of at least `least`."""
        value = self._read(name, int | float, "a finite number", default)
        if not math.isfinite(value):
            raise _wrong(name, "a finite number", value)
        if value < least:
            raise _wrong(name, f"at least {least}", value)
        return float(value)

    def boolean(self, name: str, default: bool | EllipsisType = ...) -> bool:
        return self._read(name, bool, "true or false", default)

    def part(self, name: str, default: Mapping[str, Json] | EllipsisType = ...) -> Body:
        """Return an object within the object."""
        return Body(self._read(name, Mapping, "an object", default))

    def texts(self, name: str) -> list[str]:
        values: Any = self._read(name, list, "a list of strings", [])
        if not all(isinstance(value, str) for value in values):
            raise _wrong(name, "a list of strings", values)
        return list(values)

    def texts_by_name(self, name: str) -> dict[str, str] | None:
        """Return an object whose values are strings, such as metadata; other scalars become strings."""
        if self.get(name) is None:
            return None
        values = self.part(name)
        if any(isinstance(value, Mapping | list) for value in values.values()):
            raise _wrong(name, "an object of strings", dict(values))
        return {key: str(value) for key, value in values.items()}

    def _read(self, name: str, kind: Any, expected: str, default: T | EllipsisType) -> T:
        value: Any = self.get(name)
        if value is None:
            if isinstance(default, EllipsisType):
                raise Refusal(f"{name} is missing")
            return default
        # Python's true and false are whole numbers, too.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise _wrong(name, expected, value)
        return value  # type: ignore[no-any-return]  # its kind was checked


def whole_numbers(value: Json, name: str) -> list[int]:
    """Return a list of whole numbers that fit into 64 bits."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise _wrong(name, "a list of whole numbers", value)
    if value and not -(2**63) <= min(value) <= max(value) < 2**63:
        raise Refusal(f"{name}: a number is too large")
    return value


def _wrong(name: str, expected: str, value: Json) -> Refusal:
    return Refusal(f"{name} must be {expected}, not {str(value)[:80]!r}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request; header names are in lower case, the path is not decoded."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The segments of the path that match an endpoint's `{name}`s."""
    connection: int = 0
    """The number of the connection that it came by."""

    def object(self) -> Body:
        """Return the body as a JSON object; refuse anything else."""
        try:
            body = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise Refusal(f"the body is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refusal(f"the body must be a JSON object, not {describe_json_type(body)}")
        return Body(body)

    def query_text(self, name: str, default: str = "") -> str:
        return parse_qs(self.query).get(name, [default])[-1]

    def whole_number(self, name: str, default: int) -> int:
        text = self.query_text(name, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise Refusal(f"{name} must be a whole number from 0, not {text!r}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Response:
    """A response. `close` closes the connection after it."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b"{}"
    kind: str = "application/json"
    close: bool = False
    headers: str = ""
    """Further lines of the head, each with its end."""
    events: AsyncGenerator[bytes, None] | None = None
    """Parts of a body that comes as it is computed, after `body`; its end is that of the connection."""

    @staticmethod
    def of_json(content: Json, status: HTTPStatus = HTTPStatus.OK, *, close: bool = False) -> Response:
        """Return a value as JSON. Raises ValueError for numbers that JSON does not have."""
        body = _ENCODE(content)
        # Lone surrogates, which a byte-level tokenizer can produce, are not UTF-8.
        return Response(status, body.encode("utf-8", errors="replace"), close=close)

    def to_bytes(self, *, close: bool, without_body: bool = False) -> bytes:
        length = f"Content-Length: {len(self.body)}\r\n" if self.events is None else ""
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\n"
            f"Content-Type: {self.kind}\r\n{length}{self.headers}"
            f"{'Connection: close' if close else 'Connection: keep-alive'}\r\n\r\n"
        )
        return head.encode("ascii") + (b"" if without_body else self.body)


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Refuse: TypeAlias = Callable[[Refusal], Response]

LOOPBACK = "127.0.0.1"
BACKLOG = 512
"""A client may open hundreds of connections at once, before the loop accepts any."""
_END_OF_HEAD = b"\r\n\r\n"
_REQUEST_LINE = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")


@dataclass(frozen=True, slots=True)
class Limits:
    head_bytes: int = 32 * 1024
    body_bytes: int = 64 * 1024 * 1024
    request_s: float = 60.0
    """Seconds from the first byte of a request to its last."""
    silence_s: float = 5.0
    """Seconds without a byte in the middle of a request."""
    idle_s: float = 600.0
    connections: int = 1000
    # A reset would take the response from the client.
    linger_s: float = 2.0
    """Seconds in which a refused client may continue to send before its connection is closed."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    length: int
    keep_alive: bool

    def request(self, body: bytes, connection: int) -> Request:
        """Return the request with its body, that came by a connection."""
        return Request(self.method, self.path, self.query, self.headers, body, connection=connection)


def listen(port: int = 0) -> socket.socket:
    """Return a socket that listens on the loopback interface. Raises OSError."""
    listening = socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    # Its connections inherit it: asyncio sets it on none of a socket that it has not made, and a body would wait 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Server:
    """Listens until closed. `handler` answers requests; `refuse` makes the response to those that never reach it.

    `context_of` returns the context in which a request is answered; None for the connection's.
    """

    def __init__(
        self,
        handler: Handler,
        refuse: Refuse,
        limits: Limits,
        *,
        context_of: Callable[[Request], Context | None] = lambda request: None,
    ) -> None:
        self.handler, self.refuse, self.limits, self.context_of = handler, refuse, limits, context_of
        self.connections: set[Connection] = set()
        self.closing = False
        self.numbers = itertools.count(1)
        self._waiting: deque[Connection] = deque()

    async def start(self, port: int = 0) -> int:
        """Listen on the loopback interface and return the port. Raises OSError."""
        listening = listen(port)
        await self.serve(listening)
        return cast(int, listening.getsockname()[1])

    async def serve(self, listening: socket.socket) -> None:
        """Accept connections of a socket that listens already."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: Connection(self), sock=listening, backlog=BACKLOG)
        self._watch = asyncio.create_task(self._close_late_connections())

    async def close(self, patience_s: float = 1.0) -> None:
        """Accept no more requests, let pending responses go out, then close all connections."""
        self.closing = True
        self._watch.cancel()
        self._listener.close()
        if due := [connection.answering for connection in self.connections if connection.answering]:
            await asyncio.wait(due, timeout=patience_s)
        for connection in tuple(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._listener.wait_closed(), patience_s)

    @property
    def is_crowded(self) -> bool:
        """True where connections wait to be read."""
        return bool(self._waiting)

    def hold(self, connection: Connection) -> None:
        """Read from a new connection only when there is room."""
        connection.pause()
        self._waiting.append(connection)
        self.admit()

    def admit(self) -> None:
        """Read from the connections that wait, the first first, as far as there is room.

        For want of room, close the one that has been without a request for the longest time.
        """
        while self._waiting:
            waiting = self._waiting[0]
            if waiting in self.connections and not self._has_room():
                return
            self._waiting.popleft()
            if waiting in self.connections:
                waiting.resume()

    def _has_room(self) -> bool:
        admitted = [each for each in self.connections if not each.is_waiting]
        if len(admitted) < self.limits.connections:
            return True
        if idle := [each for each in admitted if each.is_idle]:
            # Its end calls `admit` again.
            min(idle, key=lambda each: each.deadline).close()
        return False

    async def _close_late_connections(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.connections):
                connection.close_if_late(now)
            # Of the new connections that were read, some may send nothing.
            self.admit()


class Connection(asyncio.Protocol):
    """A client's connection: receives a request, has it answered, and continues with the next."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.answering: asyncio.Task[None] | None = None
        self._received = bytearray()
        self._head: Head | None = None
        self._refused = self.is_waiting = False
        self._number = next(server.numbers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._begin()
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.limits.connections:
            self.server.hold(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        self.server.admit()
        if self.answering:
            self.answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if not self._received and not self._head:
            self._request_deadline = self._loop.time() + self.server.limits.request_s
            self._first_request_by = 0.0
        self.deadline = min(self._request_deadline, self._loop.time() + self.server.limits.silence_s)
        self._received += data
        if self.answering:
            # The next request waits in the socket until this one has been answered.
            self._transport.pause_reading()
        else:
            self._advance()

    @property
    def is_idle(self) -> bool:
        """True where it has no request, and is neither so new that its first one may be on its way nor closing."""
        is_busy = self.answering or self._received or self._head or self._refused or self._transport.is_closing()
        return not is_busy and self._loop.time() >= self._first_request_by

    def pause(self) -> None:
        """Leave what the client sends in the socket."""
        self.is_waiting = True
        self._transport.pause_reading()

    def resume(self) -> None:
        self.is_waiting = False
        self._begin()
        self._transport.resume_reading()

    def _begin(self) -> None:
        limits, now = self.server.limits, self._loop.time()
        self.deadline = self._request_deadline = now + limits.idle_s
        self._first_request_by = now + limits.silence_s

    def close_if_late(self, now: float) -> None:
        """Close after too long without data; a request that is being answered is not late."""
        if self.answering or now < self.deadline:
            return
        if self._received or self._head:
            self._refuse(Refusal("the request took too long to arrive", HTTPStatus.REQUEST_TIMEOUT))
        else:
            self.close()

    def close(self) -> None:
        """Close after pending data has been sent."""
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
        request = head.request(bytes(self._received[: head.length]), self._number)
        del self._received[: head.length]
        self.answering = self._loop.create_task(
            self._answer(request, head.keep_alive), context=self.server.context_of(request)
        )

    def _take_head(self) -> Head | None:
        limits = self.server.limits
        end = self._received.find(_END_OF_HEAD, 0, limits.head_bytes)
        if end < 0:
            if len(self._received) >= limits.head_bytes:
                sentence = f"the headers are longer than {limits.head_bytes} bytes"
                raise Refusal(sentence, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return None
        head = parse_head(self._received[:end].decode("latin-1"))
        del self._received[: end + len(_END_OF_HEAD)]
        if head.length > limits.body_bytes:
            sentence = f"the body has {head.length} bytes; expected at most {limits.body_bytes}"
            raise Refusal(sentence, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        # curl and some SDKs wait for this before they send a large body.
        if head.length and head.headers.get("expect", "").lower() == "100-continue":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return head

    async def _answer(self, request: Request, keep_alive: bool) -> None:
        response = await self.server.handler(request)
        # Without a length only the end of the connection ends a body.
        ends = self.server.closing or self.server.is_crowded or response.events is not None
        close = response.close or not keep_alive or ends
        self._transport.write(response.to_bytes(close=close, without_body=request.method == "HEAD"))
        if response.events is not None:
            async with contextlib.aclosing(response.events) as events:
                async for part in events:
                    # Many parts may wait, and the loop has no time between them to notice that the client has left.
                    if self._transport.is_closing():
                        break
                    self._transport.write(part)
        self.answering = None
        # The beginning of the next request may have arrived already.
        limits = self.server.limits
        self.deadline = self._loop.time() + (limits.silence_s if self._received else limits.idle_s)
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
    r"""Parse the request line and the headers; refuse anything but HTTP/1.x.

    >>> head = parse_head("POST /api/v1/x?limit=3 HTTP/1.1\r\nContent-Length: 2")
    >>> head.path, head.query, head.length, head.keep_alive
    ('/api/v1/x', 'limit=3', 2, True)
    """
    first, *lines = text.split("\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if not line:
        raise Refusal(f"the request starts with {first[:80]!r}, which is not HTTP/1.1")
    headers: dict[str, str] = {}
    for header in lines:
        sent, colon, value = header.partition(":")
        name = _header_name(sent)
        # A repeated Content-Length is how requests are smuggled past a proxy.
        if not (colon and name) or (name == "content-length" and name in headers):
            raise Refusal(f"{header[:80]!r} is not a header")
        headers[name] = value.strip(" \t")
    path, _, query = line[2].partition("?")
    connection = headers.get("connection", "keep-alive" if line[3] == "1" else "close").lower()
    return Head(line[1], path, query, headers, _length(headers), keep_alive="close" not in connection)


# A client sends the same names each time, an SDK a score of them: 57 us a request without this, and 20 with it.
@functools.lru_cache(maxsize=256)
def _header_name(sent: str) -> str:
    """Return the name of a header in lower case; empty for a text that is not a name."""
    name = sent.lower()
    return name if _HEADER_NAME.fullmatch(name) else ""


def _length(headers: dict[str, str]) -> int:
    # Chunked bodies are not read: no client of this server sends them.
    if "transfer-encoding" in headers:
        raise Refusal("the body has no Content-Length: send it, not chunks", HTTPStatus.LENGTH_REQUIRED)
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refusal(f"Content-Length {text[:40]!r} is not a number of bytes")
    return int(text)
