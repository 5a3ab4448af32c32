"""One connection: a request goes out, its answer comes back, and then the next may go. httptools reads the answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools

from pytest_crucible.errors import BackendError, Retryable

Watch = Callable[[bytes], None]
"""Is shown each piece of a body when it comes. It must not raise."""
_LENGTH_KNOWN = ("content-length", "transfer-encoding")
MOST = 256 * 2**20
"""Bytes of a body: what comes after them would fill the memory before it meant anything."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer that came whole."""

    status: int
    headers: dict[str, str]
    """Names in small letters; of a name that came twice, the last."""
    body: bytes
    sent_at: float
    """When the request went out, by `time.perf_counter`."""
    seconds: float
    """From then to the end of the answer."""


class Connection(asyncio.Protocol):
    """An open connection to `where`, which error sentences name."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.idle_since = 0.0
        self.open = False
        self.reusable = False
        """Whether the last answer left it fit for another request."""
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Response] | None = None
        self._started = 0.0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._watch: Watch | None = None
        self._head_came = self._is_tunnel = False

    async def ask(self, request: bytes, watch: Watch | None = None) -> Response:
        """Send a request and wait for the whole answer. When this is cancelled, the connection ends.

        Raises Retryable, and BackendError for an answer without end.
        """
        self.reusable = False
        if not self.open:
            raise self._lost("closed the connection")
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._headers, self._body, self._size, self._watch, self._head_came = {}, [], 0, watch, False
        self._started = time.perf_counter()
        self.transport.write(request)
        try:
            return await answer
        except BaseException:
            self.close()
            raise

    async def tunnel(self, request: bytes) -> Response:
        """Ask a proxy to be silent from now on: an answer of 200 has no body and no end."""
        self._is_tunnel = True
        answer = await self.ask(request)
        self._is_tunnel, self._parser = False, httptools.HttpResponseParser(self)
        return answer

    def close(self) -> None:
        """End it at once."""
        self.open = self.reusable = False
        self._answer = None
        self.transport.abort()

    # -- what the transport tells -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            return self.close()  # nothing was asked: whatever this is, it must not be taken for the next answer
        try:
            return self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            return self._fail(Retryable(f"{self.where} did not answer in HTTP ({error})", kind="garbage"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._answer is None:
            return
        if self._head_came and exc is None and not any(name in self._headers for name in _LENGTH_KNOWN):
            self._finish()
        elif self._head_came:
            said = f"{self.where} broke off its answer after {self._size} bytes of the body"
            self._fail(Retryable(said, kind="half"))
        else:
            self._fail(self._lost("reset the connection" if exc else "closed the connection"))

    # -- what the parser tells ----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._answer is None:
            self.close()  # a second answer to one request: what follows could be taken for the answer to another

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._head_came = status >= 200
        if self._is_tunnel and 200 <= status < 300:
            self._finish()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)
        self._size += len(body)
        if self._size > MOST:
            said = f"{self.where} answers with more than {MOST // 2**20} MiB: what follows was not read"
            self._fail(BackendError(said, kind="garbage"))
        elif self._watch is not None:
            self._watch(body)

    def on_message_complete(self) -> None:
        if not self._head_came:  # 100 Continue and its like: the answer is still to come
            self._headers = {}
        elif self._answer is not None:
            self.reusable = self._parser.should_keep_alive() and self.open
            self._finish()

    def _finish(self) -> None:
        seconds = time.perf_counter() - self._started
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            status = self._parser.get_status_code()
            answer.set_result(Response(status, self._headers, b"".join(self._body), self._started, seconds))

    def _fail(self, error: BackendError) -> None:
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _lost(self, how: str) -> Retryable:
        return Retryable(f"{self.where} {how} before it answered", kind="connection")
