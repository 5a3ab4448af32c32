"""HTTP/1.1 over real sockets on the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.local_model.server.transport import (
    LOOPBACK,
    Connection,
    Limits,
    Refusal,
    Request,
    Response,
    Server,
    listen,
    parse_head,
)

pytestmark = pytest.mark.asyncio


async def echo(request: Request) -> Response:
    await asyncio.sleep({"/slow": 60}.get(request.path, 0))
    return Response.of_json({"path": request.path, "query": request.query, "size": len(request.body)})


def refuse(refusal: Refusal) -> Response:
    return Response.of_json({"detail": refusal.sentence}, refusal.status)


@contextlib.asynccontextmanager
async def talk(limits: Limits | None = None) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a fresh server; all must be over within seconds."""
    server = Server(echo, refuse, limits or Limits())
    reader, writer = await asyncio.open_connection(LOOPBACK, await server.start())
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()
        await server.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def count_answering(server: Server) -> int:
    return sum(bool(connection.answering) for connection in server.connections)


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, object]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("Content-Length"))
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def refusal_of(sent: bytes, **limits: float) -> tuple[int, str]:
    """Return status and sentence that some bytes get, after which the connection must end."""
    async with talk(Limits(**{"linger_s": 0.05, **limits})) as (reader, writer):
        writer.write(sent)
        status, body = await answer(reader)
        assert await reader.read() == b""
    return status, str(body["detail"])


async def test_a_part_of_a_stream_does_not_wait_for_the_client_to_confirm_the_last():
    with listen() as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_requests_follow_one_another_on_a_connection():
    async with talk() as (reader, writer):
        for size in (0, 3, 200_000):
            writer.write(b"POST /a?b=1 HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)

            assert await answer(reader) == (200, {"path": "/a", "query": "b=1", "size": size})


async def test_requests_that_come_at_once_are_answered_in_order():
    async with talk() as (reader, writer):
        writer.write(b"".join(b"GET /%d HTTP/1.1\r\n\r\n" % number for number in range(50)))

        assert [(await answer(reader))[1]["path"] for _ in range(50)] == [f"/{number}" for number in range(50)]


async def test_a_request_may_come_byte_by_byte():
    async with talk() as (reader, writer):
        for byte in b"POST /slowly HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

        assert (await answer(reader))[1] == {"path": "/slowly", "query": "", "size": 2}


async def test_expect_100_continue_is_answered():
    async with talk() as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")

        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"

        writer.write(b"hi")

        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("request_line", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"])
async def test_a_connection_is_closed_on_request(request_line):
    async with talk() as (reader, writer):
        writer.write(request_line)

        assert (await answer(reader))[0] == 200
        assert await reader.read() == b""


async def test_the_answer_to_head_has_no_body():
    async with talk() as (reader, writer):
        writer.write(b"HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")

        assert (await answer(reader))[1]["path"] == "/b"


@pytest.mark.parametrize(
    ("sent", "status", "sentence"),
    [
        (b"hello\r\n\r\n", 400, "the request starts with 'hello', which is not HTTP/1.1"),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "which is not HTTP/1.1"),
        (b"GET / HTTP/2\r\n\r\n", 400, "which is not HTTP/1.1"),
        (b"GET / HTTP/1.1\r\nno header\r\n\r\n", 400, "'no header' is not a header"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\n", 400, "is not a header"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "'-1' is not a number of bytes"),
        ("POST / HTTP/1.1\r\nContent-Length: ²\r\n\r\n".encode("latin-1"), 400, "is not a number of bytes"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411, "send it, not chunks"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413, "the body has 1001 bytes; expected at most 1000"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 600, 431, "the headers are longer than 500 bytes"),
    ],
)
async def test_a_malformed_request_gets_an_error_and_ends_the_connection(sent, status, sentence):
    refusal = await refusal_of(sent, head_bytes=500, body_bytes=1000)

    assert refusal[0] == status
    assert sentence in refusal[1]


async def test_names_of_headers_are_read_alike_each_time():
    for sent in ("X-Name", "x-NAME") * 2:
        assert parse_head(f"GET / HTTP/1.1\r\n{sent}: a").headers == {"x-name": "a"}
        for wrong in ("x name: a", ": a", "x-name", "content-length: 1\r\nContent-Length: 1"):
            with pytest.raises(Refusal, match="is not a header"):
                parse_head(f"GET / HTTP/1.1\r\n{wrong}")


async def test_a_client_that_goes_on_sending_still_gets_the_refusal():
    body = b"x" * 3_000_000
    status, _ = await refusal_of(
        b"POST / HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n" + body, body_bytes=1000, linger_s=1.0
    )

    assert status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


async def test_half_a_request_times_out():
    assert await refusal_of(b"GET / HTT", request_s=0.1) == (408, "the request took too long to arrive")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTT",
        b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nhalf",
    ],
)
async def test_half_a_request_that_falls_silent_is_closed_after_a_short_while(sent):
    assert Limits().silence_s == 5
    assert await refusal_of(sent, silence_s=0.1) == (408, "the request took too long to arrive")


async def test_a_connection_on_which_nothing_happens_is_closed():
    async with talk(Limits(idle_s=0.1)) as (reader, _):
        assert await reader.read() == b""


async def test_beyond_the_limit_the_connection_without_a_request_is_closed():
    async with talk(Limits(connections=1)) as (reader, writer):
        writer.write(b"GET /a HTTP/1.1\r\n\r\n")
        await answer(reader)
        second_reader, second = await asyncio.open_connection(*writer.get_extra_info("peername"))
        second.write(b"GET /a HTTP/1.1\r\n\r\n")

        assert (await answer(second_reader))[0] == HTTPStatus.OK
        assert await reader.read() == b""
        second.close()


@pytest.mark.slow
async def test_a_new_connection_that_sends_nothing_makes_room_after_a_while():
    async with talk(Limits(connections=1, silence_s=0.1)) as (reader, writer):
        second_reader, second = await asyncio.open_connection(*writer.get_extra_info("peername"))
        second.write(b"GET /a HTTP/1.1\r\n\r\n")

        assert (await answer(second_reader))[0] == HTTPStatus.OK
        assert await reader.read() == b""
        second.close()


async def test_a_burst_beyond_the_limit_ends_no_new_connection():
    async with talk(Limits(connections=2)) as (_, writer):
        address = writer.get_extra_info("peername")
        # Within one turn of the server's loop.
        sockets = [socket.create_connection(address) for _ in range(20)]
        for each in sockets:
            each.sendall(b"GET /a HTTP/1.1\r\n\r\n")
        streams = [await asyncio.open_connection(sock=each) for each in sockets]

        replies = await asyncio.gather(*(answer(reader) for reader, _ in streams))

        assert [status for status, _ in replies] == [HTTPStatus.OK] * 20
        for _, each in streams:
            each.close()


async def test_while_others_wait_an_answer_ends_its_connection():
    has_waiter = asyncio.Event()

    async def echo_later(request: Request) -> Response:
        await has_waiter.wait()
        return await echo(request)

    server = Server(echo_later, refuse, Limits(connections=1))
    address = LOOPBACK, await server.start()
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /a HTTP/1.1\r\n\r\n")
    await until(lambda: count_answering(server) == 1)
    second_reader, second = await asyncio.open_connection(*address)
    second.write(b"GET /a HTTP/1.1\r\n\r\n")
    await until(lambda: len(server.connections) == 2)
    has_waiter.set()

    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert (await answer(second_reader))[0] == HTTPStatus.OK
    for each in (writer, second):
        each.close()
    await server.close()


async def test_a_waiting_connection_that_leaves_makes_no_room():
    server = Server(echo, refuse, Limits(connections=1))
    address = LOOPBACK, await server.start()
    _, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
    await until(lambda: count_answering(server) == 1)
    later = [await asyncio.open_connection(*address) for _ in range(3)]
    await until(lambda: len(server.connections) == 4)

    next(each for each in server.connections if each.is_waiting).close()
    await until(lambda: len(server.connections) == 3)

    assert sum(not each.is_waiting for each in server.connections) == 1
    for each in (writer, *(writer for _, writer in later)):
        each.close()
    await server.close()


async def test_beyond_the_limit_a_connection_waits_for_those_that_are_being_answered():
    server = Server(echo, refuse, Limits(connections=1))
    address = LOOPBACK, await server.start()
    _, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
    await until(lambda: count_answering(server) == 1)
    later = [await asyncio.open_connection(*address) for _ in range(2)]
    for _, each in later:
        each.write(b"GET /a HTTP/1.1\r\nConnection: close\r\n\r\n")
    replies = [asyncio.create_task(answer(reader)) for reader, _ in later]
    await until(lambda: len(server.connections) == 3)
    await asyncio.sleep(0.1)
    assert not any(reply.done() for reply in replies)

    writer.close()
    assert [status for status, _ in await asyncio.gather(*replies)] == [HTTPStatus.OK] * 2
    for _, each in later:
        each.close()
    await server.close()


async def test_a_client_that_leaves_is_forgotten():
    server = Server(echo, refuse, Limits())
    _, writer = await asyncio.open_connection(LOOPBACK, await server.start())
    writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
    while not any(connection.answering for connection in server.connections):
        await asyncio.sleep(0.01)
    writer.close()
    while server.connections:
        await asyncio.sleep(0.01)
    await server.close()


async def test_closing_ends_connections_that_are_being_answered():
    server = Server(echo, refuse, Limits())
    reader, writer = await asyncio.open_connection(LOOPBACK, await server.start())
    writer.write(b"GET /slow HTTP/1.1\r\n\r\n")
    await until(lambda: count_answering(server) == 1)
    await server.close(patience_s=0.1)

    assert await reader.read() == b""

    writer.close()


@pytest.mark.slow
@given(st.text(alphabet=st.characters(codec="latin-1"), max_size=80))
async def test_any_head_is_parsed_or_refused(text):
    status: int = HTTPStatus.OK
    try:
        parse_head(text)
    except Refusal as refusal:
        status = refusal.status

    assert status in (HTTPStatus.OK, HTTPStatus.BAD_REQUEST, HTTPStatus.LENGTH_REQUIRED)


async def test_parts_of_a_client_that_has_left_are_not_made():
    built, ended = list[int](), list[bool]()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            # Without a pause, as when many parts wait while the loop is busy.
            for number in range(10_000):
                built.append(number)
                yield b"x" * 1000
        finally:
            ended.append(True)

    class Left(asyncio.Transport):
        def is_closing(self) -> bool:
            return len(built) > 3

        def write(self, data: bytes | bytearray | memoryview) -> None:
            pass

        def close(self) -> None:
            pass

    async def stream(request: Request) -> Response:
        return Response(body=b"", events=parts())

    connection = Connection(Server(stream, refuse, Limits()))
    connection.connection_made(Left())
    connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
    while connection.answering:
        await asyncio.sleep(0)

    assert (len(built), ended) == (4, [True])
