"""Limits on what a server makes its client hold, for both clients: headers without end, and many long replies at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.http import open_client
from pytest_crucible.backends.http.client import parse_address
from pytest_crucible.backends.http.connection import MAX_HEADERS, HeldBytes, Response
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.records.errors import BackendError, Retryable

OK = b"HTTP/1.1 200 OK\r\n"
BODY = b"content-length: 2\r\n\r\n{}"
MB = 1_000_000


@contextlib.asynccontextmanager
async def serving(answer: Callable[[int, asyncio.StreamWriter], object]) -> AsyncIterator[str]:
    """The URL of a server that answers its requests, which count from 0, by this coroutine function."""
    numbers = iter(range(10_000))
    handlers: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handlers.add(asyncio.current_task())
        # A cancelled handler would be reported by its stream.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(next(numbers), writer)
        writer.transport.abort() if asyncio.current_task().cancelling() else writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)


@pytest.fixture(params=["default", "httpx"])
def transport(request) -> str:
    return request.param


def post_all(transport: str, answer, *, requests: int = 1, max_body: int = 64 * MB, watch=None) -> list:
    """Return the responses and errors of so many requests at the same time."""

    async def run() -> list[Response | BaseException]:
        async with serving(answer) as url:
            client = open_client(parse_address(url), {}, transport=transport, max_body=max_body)
            try:
                posts = (client.post("/completions", b"{}", watch and watch()) for _ in range(requests))
                return await asyncio.wait_for(asyncio.gather(*posts, return_exceptions=True), 60)
            finally:
                await client.close()

    return asyncio.run(run())


def sending(*pieces: bytes, times: int = 1):
    async def answer(number: int, writer: asyncio.StreamWriter) -> None:
        for piece in pieces[:-1]:
            writer.write(piece)
        for _ in range(times):
            writer.write(pieces[-1])
            await writer.drain()

    return answer


ENDLESS = {
    "many headers": (OK, b"x-a: " + b"a" * 1000 + b"\r\n"),
    "one header": (OK + b"x-a: ", b"a" * 1000),
    "one name": (OK, b"a" * 1000),
    "interim responses": (b"HTTP/1.1 103 Early Hints\r\nlink: " + b"a" * 1000 + b"\r\n\r\n",),
}


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
def test_endless_headers_are_not_read(transport, pieces):
    post_all(transport, sending(OK + BODY))  # what a first request imports is not held for a reply
    tracemalloc.start()
    (error,) = post_all(transport, sending(*pieces, times=20_000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert isinstance(error, BackendError)
    assert peak < 8 * MB
    # httpx itself bounds each head, and the time of a request those that follow one another.
    if not (transport == "httpx" and len(pieces) == 1):
        assert not isinstance(error, Retryable)
        assert "sent more than 64 KiB of headers; the rest was not read" in str(error)


@pytest.mark.parametrize("times", [60, 70])
def test_headers_of_64_kib_are_read(transport, times):
    head = OK + b"x-a: %b\r\n" % (b"a" * 1019) * times + BODY

    (response,) = post_all(transport, sending(head))

    assert isinstance(response, Response) == (1022 * times < MAX_HEADERS)


def test_endless_trailers_are_not_read():
    head = OK + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"

    (error,) = post_all("default", sending(head, b"x-a: " + b"a" * 1000 + b"\r\n", times=1_000))

    assert "KiB of headers" in str(error)


def test_longest_concurrent_reply_is_dropped(transport, monkeypatch):
    small = HeldBytes("http://server.example", 4 * MB)
    for module in ("connection", "httpx_client"):
        monkeypatch.setattr(f"pytest_crucible.backends.http.{module}.held_of", lambda where: small)
    is_held = asyncio.Event()

    async def answer(number: int, writer: asyncio.StreamWriter) -> None:
        if number:
            await is_held.wait()
            writer.write(OK + b"content-length: 500000\r\n\r\n" + b"a" * 500_000)
        else:
            # It stalls: only another reply's growth can drop it.
            writer.write(OK + b"content-length: 9000000\r\n\r\n" + b"a" * 3_800_000)
            await writer.drain()
            while small._held < 3_800_000:
                await asyncio.sleep(0.005)
            is_held.set()
            await asyncio.sleep(1e3)

    dropped, *others = post_all(transport, answer, requests=6)

    assert isinstance(dropped, Retryable)
    assert "sent more than 4 MB of replies at the same time; the longest of them was not read" in str(dropped)
    assert {len(other.body) for other in others} == {500_000}
    assert small._held == 0


def test_endless_stream_events_count_as_held(transport, monkeypatch):
    small = HeldBytes("http://server.example", 4 * MB)
    for module in ("connection", "httpx_client"):
        monkeypatch.setattr(f"pytest_crucible.backends.http.{module}.held_of", lambda where: small)
    head = OK + b"content-type: text/event-stream\r\n\r\ndata: "

    outcomes = post_all(transport, sending(head, b"a" * MB, times=3), requests=4, watch=lambda: Stream(MB))

    assert 1 <= sum(isinstance(outcome, Retryable) for outcome in outcomes) <= 3
    assert small._held == 0


def test_single_reply_has_only_the_adapters_limit():
    dropped: list[BackendError] = []
    held = HeldBytes("http://server.example", 10)

    assert held.open(dropped.append).resize(1_000)
    assert dropped == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100))))
def test_held_bytes_stay_within_the_limit(changes):
    dropped: list[int] = []
    held = HeldBytes("http://server.example", 150)
    holdings = [held.open(lambda error, number=number: dropped.append(number)) for number in range(6)]

    for number, size in changes:
        holdings[number].resize(size)
        still = [holding.size for place, holding in enumerate(holdings) if place not in dropped]
        assert sum(still) == held._held
        assert held._held <= 150 or len(still) == 1
    assert len(set(dropped)) == len(dropped)
