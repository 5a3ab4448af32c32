"""The longest reply: it is cut at max_reply_bytes and counts as truncated, and no body is read without end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.backends import ScriptedBackend
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.openai.backend import open_openai
from pytest_crucible.backends.openai.streams import Stream
from pytest_crucible.backends.protocol import MAX_REPLY_BYTES, ReplyLimit, cut_reply, read_reply_limit
from pytest_crucible.backends.stack import wrap_backend
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import BackendError, Retryable, SpecError

REQUEST = Request(input="2 + 2", sample="a", repeat=0)
TEXTS = st.text(st.characters(codec=None), max_size=40)  # with halves of surrogate pairs, which servers send
TRANSPORTS = pytest.mark.parametrize("transport", ["default", "httpx"])
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def size(*texts: str) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


@given(text=TEXTS, reasoning=TEXTS, limit=st.integers(1, 60))
def test_reply_is_cut_to_the_limit(text, reasoning, limit):
    reply = cut_reply(Reply(text=text, reasoning=reasoning), limit)
    whole, cut = reasoning + text, reply.reasoning + reply.text

    assert whole.startswith(cut)
    assert size(cut) <= limit
    assert cut == whole or size(whole[: len(cut) + 1]) > limit
    assert (reply.finish == "length") == (cut != whole)


def test_reply_within_the_limit_is_unchanged():
    reply = Reply(text="four", tool_calls=({"function": {"name": "add", "arguments": "{}"}},))

    assert cut_reply(reply, 100) is reply


def test_tool_calls_beyond_the_limit_are_dropped():
    calls = ({"function": {"name": "add", "arguments": "1" * 100}},)

    assert cut_reply(Reply(text="four", tool_calls=calls, finish="tool_calls"), 100) == Reply(
        text="four", finish="length"
    )


def test_each_alternative_has_the_whole_limit():
    reply = cut_reply(Reply(text="abc", alternatives=(Reply(text="abcd"), Reply(text="abc"))), 3)

    assert (reply.finish, [other.finish for other in reply.alternatives]) == ("stop", ["length", "stop"])
    assert [other.text for other in reply.alternatives] == ["abc", "abc"]


def test_limit_changes_the_identity():
    inner = ScriptedBackend(str)

    assert ReplyLimit(inner, MAX_REPLY_BYTES).identity == inner.identity
    assert ReplyLimit(inner, 10).identity == f"{inner.identity} max_reply_bytes 10"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1 MB", None])
def test_an_invalid_limit_is_refused(value):
    with pytest.raises(SpecError, match=r"adapter 'v2' has max_reply_bytes = .*: expected the bytes after which"):
        read_reply_limit(Adapter(name="v2", backend="openai", asking={"max_reply_bytes": value}))


# -- over HTTP ----------------------------------------------------------------------------------------------------


async def reply_of(head: bytes, *pieces: bytes, forever: bytes = b"", limit: int, **options) -> tuple[Reply, int]:
    """The reply to these bytes, and how many of them the server could send; `forever` is sent until the client hangs up."""
    sent = 0
    finished = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: %b\r\n\r\n" % head)
            for piece in pieces:
                writer.write(piece)
            while forever:
                writer.write(forever)
                sent += len(forever)
                await writer.drain()
        writer.close()
        finished.set()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        adapter = Adapter(
            name="v2",
            backend="openai",
            options={"base_url": url, "model": "m", **options},
            asking={"max_reply_bytes": limit, "retries": 0},
        )
        backend = wrap_backend(open_openai(adapter, Path()), adapter, BackendContext())
        try:
            return await backend.generate(REQUEST), sent
        finally:
            await backend.close()
            await finished.wait()


def event(text: str, index: int = 0, finish: str | None = None) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


@TRANSPORTS
def test_unstreamed_reply_is_cut(transport):
    body = json.dumps({"choices": [{"message": {"content": "é" * 600}, "finish_reason": "stop"}]}).encode()
    reply, _ = asyncio.run(reply_of(b"application/json", body, limit=999, transport=transport))

    assert (reply.text, reply.finish) == ("é" * 499, "length")


@TRANSPORTS
def test_endless_stream_is_cut_at_the_limit(transport):
    reply, sent = asyncio.run(
        reply_of(b"text/event-stream", forever=event("ab" * 500), limit=99_999, stream=True, transport=transport)
    )

    assert (reply.text, reply.finish) == (("ab" * 50_000)[:99_999], "length")
    assert reply.first_token_s is not None
    assert sent < 20_000_000  # what sockets hold, and no more


@TRANSPORTS
def test_other_streamed_choices_are_read_completely(transport):
    pieces = event("aaaa"), event("aaaa"), event("bb", 1), event("b", 1, "stop"), event("", 0, "stop")
    reply, _ = asyncio.run(
        reply_of(
            b"text/event-stream",
            *pieces,
            b"data: [DONE]\n\n",
            limit=5,
            stream=True,
            transport=transport,
            extra_body={"n": 2},
        )
    )

    assert (reply.text, reply.finish) == ("aaaaa", "length")
    assert [(other.text, other.finish) for other in reply.alternatives] == [("bbb", "stop")]


@TRANSPORTS
@STREAMS
def test_endless_body_loses_the_sample(transport, stream):
    answer = reply_of(b"application/json", forever=b" " * 65_536, limit=100, stream=stream, transport=transport)

    with pytest.raises(
        BackendError, match="sent a response of more than 1 MB; the rest was not read: raise max_reply_bytes"
    ) as caught:
        asyncio.run(answer)
    assert not isinstance(caught.value, Retryable)


@TRANSPORTS
def test_endless_event_loses_the_sample(transport):
    answer = reply_of(b"text/event-stream", forever=b"x" * 65_536, limit=10_000, stream=True, transport=transport)

    with pytest.raises(BackendError, match="streamed an event of more than 1 MB; the rest was not read") as caught:
        asyncio.run(answer)
    assert not str(caught.value).startswith("lost after")  # it is not retried


def test_split_event_is_joined_once():
    stream, begun = Stream(MAX_REPLY_BYTES), time.process_time()
    for _ in range(30_000):  # a copy for each piece would be 450 GB
        assert stream.feed(b" " * 1_000)

    assert time.process_time() - begun < 2


def test_split_choice_is_joined_once():
    stream, begun = Stream(10**8), time.process_time()
    pieces = event("ab " * 600) * 30
    for _ in range(1_000):  # a copy for each event would be 800 GB
        stream.feed(pieces)
    stream.feed(event("", 0, "stop"))

    assert time.process_time() - begun < 2
    assert len(stream.answer("there")["choices"][0]["message"]["content"]) == 54_000_000
