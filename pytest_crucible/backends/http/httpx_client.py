"""An HTTP client on httpx (extra `httpx`): HTTP/2, SOCKS proxies, redirects, and clients with authentication of their own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping

import httpx

from pytest_crucible.backends.http.client import Address
from pytest_crucible.backends.http.connection import (
    CONNECT_S,
    IDLE_S,
    MAX_HEADERS,
    Holding,
    Response,
    Watch,
    connection_error,
    headers_too_long,
    held_of,
    is_event_stream,
    too_long,
)
from pytest_crucible.records.errors import BackendError, Refused, Retryable, describe_type

# A gateway redirects once or twice; more is a loop.
MOST_REDIRECTS = 5
# The message of h11, which holds no more than 100 KiB of a head that does not end.
_LONG_HEAD = "too long"


def build_client(tls: ssl.SSLContext) -> httpx.AsyncClient:
    """Return a client without limits of its own: the session limits requests, and their time."""
    return httpx.AsyncClient(
        http2=True,
        verify=tls,
        timeout=httpx.Timeout(None, connect=CONNECT_S),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_S),
    )


class HttpxClient:
    """Sends requests with the same headers to one server. It may be used from several loops, one after the other."""

    def __init__(
        self, address: Address, headers: Mapping[str, str], max_body: int, build: Callable[[], httpx.AsyncClient]
    ) -> None:
        """`max_body` is the longest body that is read, in bytes. `build` is called once for each loop that sends requests."""
        self._address, self._headers, self._max_body, self._build = address, dict(headers), max_body, build
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: AsyncGenerator[httpx.AsyncClient, None] | None = None
        self._reached = False

    async def post(self, path: str, body: bytes, watch: Watch | None = None) -> Response:
        """Send a POST request and return the response of any status; `watch` receives an event stream. Raises BackendError."""
        url = self._address.origin + self._address.target(path)
        head_came, started = False, time.perf_counter()
        try:
            if self._loop is not asyncio.get_running_loop():
                self._client = await self._enter_loop()
            request = self._client.build_request("POST", url, content=body, headers=self._headers)
            response = await self._send(request)
            self._reached = head_came = True
            return await self._read(response, started, watch)
        except httpx.HTTPError as error:
            raise self._error(error, head_came) from None
        except BackendError:
            raise
        except Exception as error:  # authentication of the user's own: it says nothing about the model's reply
            raise Refused(f"the client of {self._address.origin} raised {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections of the running loop."""
        if self._ending is not None and self._loop is asyncio.get_running_loop():
            ending, self._ending, self._loop = self._ending, None, None
            await ending.aclose()

    async def _enter_loop(self) -> httpx.AsyncClient:
        client = self._build()
        if not isinstance(client, httpx.AsyncClient):
            raise Refused(
                f"the function `client` of this adapter returned {describe_type(client)}: expected an httpx.AsyncClient"
            )
        self._loop, self._ending = asyncio.get_running_loop(), _close_with_loop(client)
        return await anext(self._ending)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a request and follow redirects on the same host: any other one would receive the adapter's headers."""
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            if response.next_request is None:
                return response
            await response.aclose()
            following = response.next_request
            if not _keeps_secrets(request, following):
                raise Refused(
                    f"{self._address.origin} redirects ({response.status_code}) to {following.url.copy_with(query=None)}: "
                    "write that as base_url if it is right"
                )
            request = following
        raise Refused(f"{self._address.origin} redirects more than {MOST_REDIRECTS} times: check base_url")

    async def _read(self, response: httpx.Response, started: float, watch: Watch | None) -> Response:
        watched = watch if is_event_stream(response.status_code, response.headers) else None
        try:
            if sum(len(name) + len(value) for name, value in response.headers.raw) > MAX_HEADERS:
                raise headers_too_long(self._address.origin)
            with _held_body(self._address.origin) as holding:
                body = await self._read_body(response, watched, holding)
        finally:
            await response.aclose()
        # The body is decompressed here, so the header no longer describes it.
        headers = {name.lower(): value for name, value in response.headers.items() if name != "content-encoding"}
        return Response(response.status_code, headers, body, started, time.perf_counter() - started)

    async def _read_body(self, response: httpx.Response, watched: Watch | None, holding: Holding) -> bytes:
        body, size = bytearray(), 0
        async for piece in response.aiter_bytes():
            size += len(piece)
            if size > self._max_body:
                raise too_long(self._address.origin, self._max_body)
            if watched is None:
                body += piece
            elif not watched.feed(piece):
                break
            if not holding.resize(size if watched is None else watched.held):
                break
        return bytes(body)

    def _error(self, error: httpx.HTTPError, head_came: bool) -> BackendError:
        where = self._address.origin
        # The deepest one says what happened; those above it that all attempts failed.
        cause = next((cause for cause in reversed([*_causes(error)]) if isinstance(cause, OSError)), None)
        if isinstance(error, httpx.ProxyError):
            return Refused(f"the proxy on the way to {where} refuses the connection ({error})")
        if isinstance(error, httpx.ConnectTimeout):
            return connection_error(TimeoutError(), where, where, reached=self._reached)
        if isinstance(error, httpx.ConnectError):
            return connection_error(cause or OSError(str(error)), where, where, reached=self._reached)
        if isinstance(error, httpx.TimeoutException):
            return Retryable(f"{where} did not answer in time", kind="timeout")
        if isinstance(error, httpx.DecodingError):
            return Retryable(f"{where} sent a body that cannot be decompressed ({error})", kind="garbage")
        if not head_came and _LONG_HEAD in str(error):
            return headers_too_long(where)
        if head_came:
            return Retryable(f"{where} broke off its response ({error})", kind="half")
        if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
            return Retryable(f"{where} closed the connection before it answered ({error})", kind="connection")
        return Refused(f"no request can be sent to {where} ({type(error).__name__}: {error})")


def _keeps_secrets(request: httpx.Request, following: httpx.Request) -> bool:
    """Return whether a redirect may be sent the same headers: the same host and method, and not back to plain HTTP."""
    is_open = request.url.scheme == "https" and following.url.scheme != "https"
    return following.url.host == request.url.host and following.method == request.method and not is_open


def _causes(error: BaseException) -> Iterator[BaseException]:
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,)
    for cause in inner:
        if cause is not None:
            yield cause
            yield from _causes(cause)


@contextlib.contextmanager
def _held_body(where: str) -> Iterator[Holding]:
    """Count a reply that is read inside the block. Raises the error with which it is dropped."""
    task, errors = asyncio.current_task(), list[BackendError]()
    assert task is not None  # a coroutine runs in one
    cancelling = task.cancelling()

    def drop(error: BackendError) -> None:
        errors.append(error)
        # Another reply has grown: this one may wait for a piece that never comes.
        if asyncio.current_task() is not task:
            task.cancel()

    holding = held_of(where).open(drop)
    try:
        yield holding
    except asyncio.CancelledError:
        if not errors or task.uncancel() > cancelling:
            raise
    finally:
        holding.close()
    if errors:
        raise errors[0]


async def _close_with_loop(client: httpx.AsyncClient) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Close the client when its loop ends: a loop closes its async generators first."""
    try:
        yield client
    finally:
        await client.aclose()
