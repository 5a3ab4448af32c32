"""The text of one reply, piece by piece: `async for piece in sampler.stream(...)`, or without async in a plain `def`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any

from pytest_crucible.records import OpenStream, Reply
from pytest_crucible.records.errors import BackendError

# A request that does not end when it is cancelled is left behind.
CLOSE_S = 1.0
_UNREAD = "the stream was not read to its end: its reply is there after the last piece; return it after the loop"


class ReplyStream(AsyncIterator[str]):
    """Sends its request when the first piece is read. Together the pieces are the text of `reply`.

    A backend that does not stream, a cached reply, a guard and an ensemble give the whole text as one piece.
    """

    def __init__(self, send: Callable[[OpenStream], Awaitable[Reply]]) -> None:
        """`send` sends the request and returns the whole reply; its argument receives the text of each attempt."""
        self._send = send
        self._task: asyncio.Task[Reply] | None = None
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()
        self._texts: list[str] = []
        self._length = 0

    @property
    def reply(self) -> Reply:
        """The whole reply. Raises RuntimeError before the last piece was read."""
        if self._task is None or not self._task.done() or self._task.cancelled() or not self._pieces.empty():
            raise RuntimeError(_UNREAD)
        return self._task.result()

    def close(self) -> None:
        """Cancel the request if it is in flight: no more pieces come, and the stream has no reply."""
        if self._task is not None and not self._task.done():
            self._task.add_done_callback(_retrieve_error)
            self._task.cancel(f"the test closed the stream after {self._length} characters")

    async def wait_closed(self) -> None:
        """Wait until a closed stream has released its resources, and its call is recorded."""
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=CLOSE_S)

    async def __anext__(self) -> str:
        """Return the next piece. Raises what the request raises, after the pieces that came before."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif self._task.done() and self._pieces.empty():
            raise StopAsyncIteration
        piece = await self._pieces.get()
        if piece is not None and not self._task.cancelling():
            return piece
        # A closed stream ends: its CancelledError would look like the end of the test.
        if not (self._task.cancelling() or self._task.cancelled()):
            self._task.result()
        raise StopAsyncIteration

    async def _run(self) -> Reply:
        try:
            reply = await self._send(self._open_attempt)
            self._add_rest(reply)
            return reply
        finally:
            self._pieces.put_nowait(None)

    def _open_attempt(self) -> Callable[[str], None]:
        """Return the receiver of one attempt. It skips the text that an earlier attempt has delivered."""
        position, is_same = 0, True

        def receive(piece: str) -> None:
            nonlocal position, is_same
            repeated = piece[: max(self._length - position, 0)]
            if repeated:
                is_same = is_same and "".join(self._texts).startswith(repeated, position)
            position += len(piece)
            if is_same:
                self._add(piece[len(repeated) :])

        return receive

    def _add(self, piece: str) -> None:
        if piece:
            self._texts.append(piece)
            self._length += len(piece)
            self._pieces.put_nowait(piece)

    def _add_rest(self, reply: Reply) -> None:
        """Deliver the rest of the text. Raises BackendError for a text that does not continue the pieces."""
        delivered = "".join(self._texts)
        # A retry may be another draw; pieces that were read cannot be taken back. A cut reply ends within the last piece.
        if not (reply.text.startswith(delivered) or (reply.finish == "length" and delivered.startswith(reply.text))):
            raise BackendError(
                f"a reply was sent again after {len(delivered)} characters of another one had been streamed: "
                "use generate, or temperature 0 with a seed"
            )
        self._add(reply.text[len(delivered) :])


def _retrieve_error(task: asyncio.Task[Reply]) -> None:
    """Retrieve the error of a closed stream, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


class BlockingReplyStream(Iterator[str]):
    """A reply stream for a function that is not async: it waits for each piece."""

    def __init__(self, stream: ReplyStream, wait: Callable[[Coroutine[Any, Any, str | None]], str | None]) -> None:
        """`wait` runs a coroutine on the sampling loop and returns its result."""
        self._stream, self._wait = stream, wait

    @property
    def reply(self) -> Reply:
        """The whole reply. Raises RuntimeError before the last piece was read."""
        return self._stream.reply

    def close(self) -> None:
        """Cancel the request, if it has not ended."""
        self._wait(self._close())

    def __next__(self) -> str:
        """Wait for the next piece. Raises what the request raises, after the pieces that came before."""
        # A StopIteration cannot leave a coroutine: None is the end.
        piece = self._wait(self._next())
        if piece is None:
            raise StopIteration
        return piece

    async def _next(self) -> str | None:
        return await anext(self._stream, None)

    async def _close(self) -> None:
        self._stream.close()
