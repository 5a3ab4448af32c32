"""One HTTP/1.1 connection, which carries one request at a time. httptools parses the responses."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, cast

import httptools

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import BackendError, Refused, Retryable, SpecError


def tls_context(*, verify: bool = True, ca_file: Path | None = None) -> ssl.SSLContext:
    """Return a context that trusts the system's authorities, those of a PEM file, or any server. Raises SpecError."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SpecError(f"ca_file {str(ca_file)!r} cannot be read as PEM certificates: {error}") from None
    # Only HTTP/1.1 is spoken here; without this some servers choose HTTP/2.
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def explain_tls_error(error: ssl.SSLError, where: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f'the certificate of {where} cannot be verified ({error.verify_message}): give ca_file = "FILE" with the '
            "authority that signed it, or verify = false"
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{where} does not speak TLS ({reason}): check whether its URL should begin with http://"


# A connection that was idle for longer is not reused.
# Many servers close idle connections after five seconds, and a request that meets the closing is lost.
IDLE_S = 4.0
# Time limit for opening a connection.
CONNECT_S = 15.0


def connection_error(error: OSError, origin: str, where: str, *, reached: bool) -> Refused | Retryable:
    """Return the error for a failed connection to `where`: the server at `origin`, or a proxy.

    A server that was never reached is a wrong setting; one that was reached before is down for a moment.
    """
    if isinstance(error, ssl.SSLCertVerificationError) or (isinstance(error, ssl.SSLError) and not reached):
        return Refused(explain_tls_error(error, origin))
    # Once it has resolved, a failing name is an outage of the resolver and worth a retry.
    if isinstance(error, socket.gaierror) and not reached:
        return Refused(f"the host name in {where} does not resolve ({error.strerror}): check the URL and the network")
    if isinstance(error, TimeoutError):
        return Retryable(f"{where} did not accept a connection within {CONNECT_S:g} s", kind="timeout")
    # Searched in the text: for a host with several addresses, the error lists what happened at each.
    if f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return Retryable(f"nothing listens at {where}: is the server running?", kind="connection")
    return Retryable(f"{where} cannot be reached: {error.strerror or error}", kind="connection")


# Servers send some hundred bytes; nginx and Apache accept 8 to 32 KiB of a request, httpx and curl 64 to 300 KiB of a response.
MAX_HEADERS = 64 * 1024
# Of all replies that one server sends at a time. 64 requests with 4 MB each, which is a reply of 8,000 tokens with 20 alternatives.
MAX_HELD = 256 * 1024 * 1024


class HeldBytes:
    """The bytes that are held of the replies that a server is sending."""

    def __init__(self, where: str, limit: int = MAX_HELD) -> None:
        self._where, self._limit, self._held = where, limit, 0
        self._holdings: set[Holding] = set()

    def open(self, drop: Callable[[BackendError], None]) -> Holding:
        """Return the count of one reply. `drop` stops reading the reply, with this error; it must not raise."""
        holding = Holding(self, drop)
        self._holdings.add(holding)
        return holding

    def change(self, by: int) -> None:
        """Count more bytes, or fewer. Above the limit the longest reply is dropped: it is the one that a server makes endless."""
        self._held += by
        # One reply alone is within the limit of its adapter.
        while self._held > self._limit and len(self._holdings) > 1:
            longest = max(self._holdings, key=lambda holding: holding.size)
            longest.close()
            message = (
                f"{self._where} sent more than {self._limit / 1e6:,.0f} MB of replies at the same time; the longest of them was "
                "not read: lower max_reply_bytes of the adapter, or --crucible-concurrency"
            )
            longest.drop(Retryable(message, kind="garbage"))

    def remove(self, holding: Holding) -> None:
        self._holdings.discard(holding)
        self._held -= holding.size


class Holding:
    __slots__ = ("_all", "_is_open", "drop", "size")

    def __init__(self, all_replies: HeldBytes, drop: Callable[[BackendError], None]) -> None:
        self._all = all_replies
        self._is_open = True
        self.drop = drop
        self.size = 0

    def resize(self, size: int) -> bool:
        """Set how many bytes are held now; return False if the reply was dropped."""
        if self._is_open:
            by, self.size = size - self.size, size
            self._all.change(by)
        return self._is_open

    def close(self) -> None:
        """Count the reply no longer."""
        if self._is_open:
            self._is_open = False
            self._all.remove(self)


@functools.cache
def held_of(where: str) -> HeldBytes:
    """Return the count of a server, which all clients of this process share."""
    return HeldBytes(where)


def headers_too_long(where: str) -> BackendError:
    """Return the error for headers that are not read to their end. It is not retried: they would be as long again."""
    return BackendError(
        f"{where} sent more than {MAX_HEADERS // 1024} KiB of headers; the rest was not read: "
        "check the server, or the gateway in front of it",
        kind="garbage",
    )


class Watch(Protocol):
    """Receives an event stream as it arrives."""

    def feed(self, piece: bytes) -> bool:
        """Receive a piece, and return whether more is wanted. Must not raise."""

    @property
    def held(self) -> int:
        """The bytes that it holds."""


_FRAMING_HEADERS = ("content-length", "transfer-encoding")


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: dict[str, str]
    """Headers by lower-case name; of repeated headers, the last."""
    body: bytes
    """Empty for an event stream that was watched: it is not held twice."""
    sent_at: float
    """When the request was sent, by `time.perf_counter`."""
    seconds: float
    """Seconds from then to the end of the response."""


def is_event_stream(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a response is a stream of events, not an error or a body in one piece."""
    return 200 <= status < 300 and headers.get("content-type", "").lower().startswith("text/event-stream")


def too_long(where: str, max_body: int) -> BackendError:
    """Return the error for a body that is not read to its end. It is not retried: it would be as long again."""
    return BackendError(
        f"{where} sent a response of more than {max_body / 1e6:,.0f} MB; the rest was not read: "
        "raise max_reply_bytes of the adapter if its replies are that long",
        kind="garbage",
    )


class Connection(asyncio.Protocol):
    """An open connection to `where`, the server's name in error messages."""

    def __init__(self, where: str, max_body: int, held: HeldBytes | None = None) -> None:
        self.where = where
        self._max_body = max_body
        self._held = held or held_of(where)
        self.idle_since = 0.0
        self.open = False
        self.reusable = False
        """Whether another request may be sent after the last response."""
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._started = 0.0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._size = self._head_size = self._unread = 0
        self._watch: Watch | None = None
        self._head_came = self._is_tunnel = False

    async def send(self, request: bytes, watch: Watch | None = None) -> Response:
        """Send a request and wait for the complete response; a cancelled one closes the connection. Raises BackendError."""
        self.reusable = False
        if not self.open:
            raise self._connection_error("closed the connection")
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answer, self._watch, self._head_came = answer, watch, False
        self._headers, self._body, self._size, self._head_size, self._unread = {}, bytearray(), 0, 0, 0
        self._holding = self._held.open(self._fail)
        self._started = time.perf_counter()
        self.transport.write(request)
        try:
            return await answer
        # After a cancellation the response is still on its way: the connection must not be used for another request.
        except BaseException:
            self.close()
            raise
        finally:
            self._holding.close()

    async def tunnel(self, request: bytes) -> Response:
        """Ask a proxy for a tunnel: its response with status 200 has neither a body nor an end."""
        self._is_tunnel = True
        answer = await self.send(request)
        self._is_tunnel, self._parser = False, httptools.HttpResponseParser(self)
        return answer

    def close(self) -> None:
        self.open = self.reusable = False
        self._answer = None
        self.transport.abort()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            # Nothing was requested: these bytes must not be taken for the next response.
            return self.close()
        # The parser itself holds a header until its end: what came since the last piece of a body is its, at most.
        self._unread += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return self._fail(Retryable(f"{self.where} did not respond in HTTP ({error})", kind="garbage"))
        if self._unread > MAX_HEADERS:
            self._fail(headers_too_long(self.where))
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer is None:
            return
        # A body without a length ends with the connection.
        if self._head_came and exc is None and not any(name in self._headers for name in _FRAMING_HEADERS):
            self._finish()
        elif self._head_came:
            message = f"{self.where} broke off its response after {self._size} bytes of the body"
            self._fail(Retryable(message, kind="half"))
        else:
            self._fail(self._connection_error("reset the connection" if exc else "closed the connection"))

    # Called by httptools' parser.

    def on_message_begin(self) -> None:
        if self._answer is None:
            # A second response to one request: what follows could be taken for the response to another one.
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Those of interim responses and of trailers count, too: neither has an end that must come.
        self._head_size += len(name) + len(value)
        if self._head_size > MAX_HEADERS:
            self._fail(headers_too_long(self.where))
        else:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._head_came = status >= 200
        if not is_event_stream(status, self._headers):
            self._watch = None
        if self._is_tunnel and 200 <= status < 300:
            self._finish()

    def on_body(self, body: bytes) -> None:
        if self._answer is None:
            return
        self._size += len(body)
        self._unread = 0
        if self._size > self._max_body:
            self._fail(too_long(self.where, self._max_body))
        elif self._watch is None:
            self._body += body
            self._holding.resize(self._size)
        elif not self._watch.feed(body):
            # Closed, not read to its end: that also stops the server.
            self._finish()
        else:
            self._holding.resize(self._watch.held)

    def on_message_complete(self) -> None:
        # 100 Continue and other interim responses: the final one is still to come.
        if not self._head_came:
            self._headers = {}
        elif self._answer is not None:
            # Read before _finish, which hands the connection to the next request.
            self.reusable = self._parser.should_keep_alive() and self.open
            self._finish()

    def _finish(self) -> None:
        seconds = time.perf_counter() - self._started
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            status = self._parser.get_status_code()
            answer.set_result(Response(status, self._headers, bytes(self._body), self._started, seconds))

    def _fail(self, error: BackendError) -> None:
        answer, self._answer = self._answer, None
        self._body, self._watch = bytearray(), None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _connection_error(self, how: str) -> Retryable:
        return Retryable(f"{self.where} {how} before it answered", kind="connection")
