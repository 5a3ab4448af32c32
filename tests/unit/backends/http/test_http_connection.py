"""Answers as servers write them: however they are cut in pieces, and wherever they break off."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends.http.connection import Connection, Response
from pytest_crucible.records.errors import BackendError, Retryable

WHERE = "http://server.example"
KNOWN_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-One: 1\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\ntrailer: 1\r\n\r\n"
INFORMED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" + KNOWN_LENGTH
UNTIL_THE_END = b"HTTP/1.0 200 OK\r\n\r\nhello"


class Wire(asyncio.Transport):
    """Keeps what is written, and shows whether it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def abort(self) -> None:
        self.ended = True


def exchange(*pieces: bytes, lost: Exception | bool = False) -> tuple[Response, Connection]:
    """The answer to a request that is answered with these pieces, after which the connection may be lost."""

    async def send() -> tuple[Response, Connection]:
        connection = Connection(WHERE, 10**6)
        connection.connection_made(Wire())
        answer = asyncio.ensure_future(connection.send(b"request"))
        await asyncio.sleep(0)
        for piece in pieces:
            connection.data_received(piece)
        if lost:
            connection.connection_lost(None if lost is True else lost)
        return await answer, connection

    return asyncio.run(send())


@contextlib.asynccontextmanager
async def open_connection() -> AsyncIterator[Connection]:
    connection = Connection(WHERE, 10**6)
    connection.connection_made(Wire())
    yield connection


@pytest.mark.parametrize("content", [KNOWN_LENGTH, CHUNKED, INFORMED], ids=["length", "chunked", "informed"])
@given(cuts=st.lists(st.integers(0, 120), max_size=6))
def test_response_is_parsed_however_it_is_split(content, cuts):
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    pieces = [content[start:end] for start, end in itertools.pairwise(places)]
    response, connection = exchange(*pieces)

    assert (response.status, response.body) == (200, b"hello")
    assert connection.reusable


def test_header_names_are_lower_case():
    response, _ = exchange(KNOWN_LENGTH)

    assert response.headers == {"content-length": "5", "x-one": "1"}


def test_body_without_length_ends_with_the_connection():
    response, connection = exchange(UNTIL_THE_END, lost=True)

    assert response.body == b"hello"
    assert not connection.reusable


def test_connection_close_is_respected():
    _, connection = exchange(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")

    assert not connection.reusable


@pytest.mark.parametrize("end", range(0, len(KNOWN_LENGTH), 3))
def test_truncated_response_is_retryable(end):
    with pytest.raises(Retryable) as caught:
        exchange(KNOWN_LENGTH[:end], lost=True)

    head = KNOWN_LENGTH.index(b"\r\n\r\n") + 4
    assert caught.value.kind == ("half" if end >= head else "connection")


@pytest.mark.parametrize(
    ("pieces", "lost", "kind", "sentence"),
    [
        ((), True, "connection", "closed the connection before it answered"),
        ((), ConnectionResetError(), "connection", "reset the connection before it answered"),
        ((KNOWN_LENGTH[:-2],), ConnectionResetError(), "half", "broke off its response after 3 bytes of the body"),
        ((UNTIL_THE_END,), ConnectionResetError(), "half", "broke off its response after 5 bytes of the body"),
        ((b"SSH-2.0-OpenSSH_9.6\r\n",), False, "garbage", "did not respond in HTTP"),
        (
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",),
            False,
            "garbage",
            "did not respond in HTTP",
        ),
        (
            (b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",),
            False,
            "garbage",
            "did not respond in HTTP",
        ),
    ],
)
def test_invalid_http_is_garbage(pieces, lost, kind, sentence):
    with pytest.raises(Retryable) as caught:
        exchange(*pieces, lost=lost)

    assert caught.value.kind == kind
    assert str(caught.value).startswith(f"{WHERE} {sentence}")


def test_unrequested_bytes_close_the_connection():
    async def receive() -> Connection:
        async with open_connection() as connection:
            connection.data_received(KNOWN_LENGTH)
            return connection

    connection = asyncio.run(receive())

    assert not connection.open
    assert connection.transport.ended


def test_endless_body_is_not_retried():
    piece = b"%x\r\n%b\r\n" % (2**19, b"x" * 2**19)

    async def endless() -> Connection:
        async with open_connection() as connection:
            answer = asyncio.ensure_future(connection.send(b"request"))
            await asyncio.sleep(0)
            connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(3):
                connection.data_received(piece)
            with pytest.raises(BackendError, match="sent a response of more than 1 MB") as caught:
                await answer
            assert not isinstance(caught.value, Retryable)
            return connection

    assert asyncio.run(endless()).transport.ended


def test_second_response_closes_the_connection():
    response, connection = exchange(KNOWN_LENGTH + CHUNKED[:20])

    assert response.body == b"hello"
    assert not connection.open


def test_request_on_a_closed_connection_is_retryable():
    async def close() -> None:
        async with open_connection() as connection:
            connection.connection_lost(None)
            await connection.send(b"request")

    with pytest.raises(Retryable, match="closed the connection before it answered"):
        asyncio.run(close())


def test_cancelled_request_ends_the_connection():
    async def cancel() -> Connection:
        async with open_connection() as connection:
            answer = asyncio.ensure_future(connection.send(b"request"))
            await asyncio.sleep(0)
            answer.cancel()
            await asyncio.wait([answer])
            connection.data_received(KNOWN_LENGTH)  # late bytes are dropped
            return connection

    connection = asyncio.run(cancel())

    assert connection.transport.ended
    assert not connection.reusable


def watch_response(content: bytes, *, most: int) -> tuple[list[bytes], Response, Connection]:
    """Return what a watch received of a response of which it wants so many pieces."""
    pieces: list[bytes] = []

    class Watch:
        held = 0

        def feed(self, piece: bytes) -> bool:
            pieces.append(piece)
            return len(pieces) < most

    async def run() -> tuple[Response, Connection]:
        async with open_connection() as connection:
            answer = asyncio.ensure_future(connection.send(b"request", Watch()))
            await asyncio.sleep(0)
            for place in range(0, len(content), 7):
                connection.data_received(content[place : place + 7])
            return await answer, connection

    return pieces, *asyncio.run(run())


EVENTS = CHUNKED.replace(b"200 OK\r\n", b"200 OK\r\nContent-Type: text/event-stream\r\n")


def test_stream_is_watched_and_not_held():
    pieces, response, connection = watch_response(EVENTS, most=100)

    assert (b"".join(pieces), response.body) == (b"hello", b"")
    assert len(pieces) > 1
    assert connection.reusable


def test_stopped_stream_closes_its_connection():
    pieces, response, connection = watch_response(EVENTS, most=1)

    assert len(pieces) == 1
    assert response.status == 200
    assert not connection.reusable


@pytest.mark.parametrize("content", [CHUNKED, EVENTS.replace(b"200 OK", b"500 No")], ids=["a body", "an error"])
def test_ordinary_body_is_held_and_not_watched(content):
    pieces, response, _ = watch_response(content, most=1)

    assert (pieces, response.body) == ([], b"hello")
