"""Replies that are read as they come: pieces, what is recorded, retries, and streams that are left early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from pytest_crucible import BackendError, Reply, Request, Retryable, ScriptedBackend
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.retried import Retried
from pytest_crucible.records import Arm, ModelCall
from pytest_crucible.sample.loop import BackgroundLoop
from pytest_crucible.sample.sampler import BlockingSampler, Sampler

ARM = Arm(name="v2", role="candidate", adapter="v2", identity="b")


class Streaming:
    """Streams the pieces of each attempt; an attempt that ends with an error breaks off there."""

    identity, simulated = "streaming", False

    def __init__(self, *attempts: Sequence[str | Exception], finish: str = "stop", text: str | None = None) -> None:
        self.attempts, self.finish, self.text = list(attempts), finish, text
        self.sent = 0

    async def generate(self, request: Request) -> Reply:
        assert request.open_stream is not None
        receive, pieces = request.open_stream(), self.attempts.pop(0)
        for piece in pieces:
            await asyncio.sleep(0)
            if isinstance(piece, Exception):
                raise piece
            receive(piece)
            self.sent += 1
        return Reply(text="".join(map(str, pieces)) if self.text is None else self.text, finish=self.finish)


def read(backend: Backend, use: Callable | None = None) -> tuple[list[str], Reply | None, list[ModelCall]]:
    """Read a stream to its end: its pieces, its reply and the recorded calls."""
    calls: list[ModelCall] = []
    sampler = Sampler(backend, ARM, "a", 0, calls=calls)
    pieces: list[str] = []

    async def stream() -> Reply:
        stream = sampler.stream("2 + 2", max_tokens=9)
        pieces.extend([piece async for piece in stream])
        return stream.reply

    return pieces, asyncio.run(stream()), calls


def retry(*attempts: Sequence[str | Exception]) -> Retried:
    return Retried(Streaming(*attempts), lambda event: None)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_crucible.backends.retried.FIRST_S", 0.0)


def test_pieces_are_the_text_of_one_recorded_reply():
    pieces, reply, (call,) = read(Streaming(["fo", "", "ur"]))

    assert (pieces, reply.text) == (["fo", "ur"], "four")
    assert call.reply == reply
    assert reply.latency_s is not None
    assert call.parameters == {"max_tokens": 9}


def test_a_backend_that_does_not_stream_gives_one_piece():
    pieces, reply, _ = read(ScriptedBackend(lambda request: "four"))

    assert (pieces, reply.text) == (["four"], "four")
    assert reply.first_token_s is None


def test_an_empty_reply_has_no_pieces():
    assert read(ScriptedBackend(lambda request: ""))[0] == []


def test_unstreamed_text_is_the_last_piece():
    assert read(Streaming(["fo"], text="four"))[0] == ["fo", "ur"]


def test_a_retry_with_the_same_text_continues_the_stream():
    pieces, reply, calls = read(retry(["fo", Retryable("broke off", kind="half")], ["f", "our", "!"]))

    assert (pieces, reply.text, len(calls)) == (["fo", "ur", "!"], "four!", 1)


def test_a_retry_with_another_text_loses_the_sample():
    with pytest.raises(
        BackendError, match="sent again after 2 characters of another one had been streamed: use generate"
    ):
        read(retry(["fo", Retryable("broke off", kind="half")], ["s", "ix"]))


def test_a_reply_that_was_cut_ends_within_its_last_piece():
    pieces, reply, _ = read(Streaming(["fo", "urteen"], finish="length", text="four"))

    assert (pieces, reply.text) == (["fo", "urteen"], "four")


def test_an_error_follows_the_pieces_that_came_before_it():
    pieces: list[str] = []
    calls: list[ModelCall] = []
    sampler = Sampler(Streaming(["fo", BackendError("gone")]), ARM, "a", 0, calls=calls)

    async def stream() -> None:
        async for piece in sampler.stream("2 + 2"):
            pieces.append(piece)

    with pytest.raises(BackendError, match="gone"):
        asyncio.run(stream())
    assert pieces == ["fo"]
    assert (calls[0].reply, calls[0].error) == (None, "BackendError: gone")


def test_a_stream_that_is_left_early_is_cancelled_with_its_sampler():
    backend, calls = Streaming(["a"] * 1000), []
    sampler = Sampler(backend, ARM, "a", 0, calls=calls)

    async def leave() -> None:
        stream = sampler.stream("2 + 2")
        async for _ in stream:
            break
        with pytest.raises(RuntimeError, match="not read to its end"):
            _ = stream.reply
        await sampler.close()
        assert calls[0].error.startswith("CancelledError: the test closed the stream after ")
        assert [piece async for piece in stream] == []
        with pytest.raises(RuntimeError, match="not read to its end"):
            _ = stream.reply

    asyncio.run(leave())
    assert backend.sent < 10
    assert calls[0].reply is None


def test_a_stream_that_is_never_read_sends_nothing():
    calls: list[ModelCall] = []
    sampler = Sampler(Streaming(), ARM, "a", 0, calls=calls)
    sampler.stream("2 + 2").close()
    asyncio.run(sampler.close())

    assert calls == []


def test_two_streams_with_one_prompt_are_two_draws():
    calls: list[ModelCall] = []
    sampler = Sampler(Streaming(["a"], ["b"]), ARM, "a", 0, calls=calls)

    async def both() -> list[str]:
        return [piece for stream in (sampler.stream("q"), sampler.stream("q")) async for piece in stream]

    assert asyncio.run(both()) == ["a", "b"]
    assert [call.request for call in calls] == [1, 2]


def test_a_plain_function_reads_a_stream_in_its_thread():
    loop = BackgroundLoop()
    try:
        calls: list[ModelCall] = []
        backend = Streaming(["fo", "ur"], ["a"] * 10_000)
        sampler = BlockingSampler(Sampler(backend, ARM, "a", 0, calls=calls), loop.loop)
        stream = sampler.stream("2 + 2")
        assert (list(stream), list(stream), stream.reply.text) == (["fo", "ur"], [], "four")

        stream = sampler.stream("2 + 2")
        assert next(stream) == "a"
        stream.close()
        assert list(stream) == []
        assert backend.sent < 10_000
    finally:
        loop.close()
    assert [call.reply is None for call in calls] == [False, True]
