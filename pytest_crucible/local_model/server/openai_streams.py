"""Replies in pieces, as server-sent events: each piece is sent when the model has written it.

Together the pieces are the text that the whole reply would have: a character that is not complete, and text that may become a stop,
wait for the next token.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

from pytest_crucible.local_model.sampling import Sampled
from pytest_crucible.local_model.server.messages import Json
from pytest_crucible.local_model.tokens import Tokenizer

Token = tuple[int, int]
"""Number of the choice and a token of it."""
Send = Callable[[int, int], None]


class TextPieces:
    """The text of one reply, in pieces."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._waiting = ""
        self.sent = ""

    def add(self, token: int) -> str:
        """Return the text that is certain after one more token."""
        self._waiting += self._decoder.decode(self._tokenizer.bytes_of([token]))
        held = max((_overlap(self._waiting, stop) for stop in self._stops), default=0)
        # A whole stop may be in the text: then its reply has ended, and `rest` gives what comes before it.
        if any(stop in self._waiting for stop in self._stops):
            return ""
        piece, self._waiting = self._waiting[: len(self._waiting) - held], self._waiting[len(self._waiting) - held :]
        self.sent += piece
        return piece

    def rest(self, text: str) -> str:
        """Return what is left of a reply's text."""
        return text[len(self.sent) :]


async def stream_events(
    start: Callable[[Send], Awaitable[Sequence[Sampled]]],
    tokenizer: Tokenizer,
    stops: Sequence[str],
    piece: Callable[[int, str, Sampled | None], Mapping[str, Json]],
    end: Callable[[Sequence[Sampled]], Mapping[str, Json] | None],
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a request.

    `start` computes replies and calls the function it gets for each token, from any thread. `piece` makes an event of a choice's
    text, which has the reply when it is the last, and `end` an event after all choices, or None. A computation that fails is an
    event with an error.
    """
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[Token | None]()
    texts: dict[int, TextPieces] = {}

    def send(choice: int, token: int) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, (choice, token))

    task = asyncio.ensure_future(start(send))
    task.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (item := await queue.get()) is not None:
            choice, token = item
            texts.setdefault(choice, TextPieces(tokenizer, stops))
            if text := texts[choice].add(token):
                yield _event(piece(choice, text, None))
        if error := task.exception():
            problem: dict[str, Json] = {
                "message": str(error),
                "type": "invalid_request_error",
                "param": None,
                "code": None,
            }
            yield _event({"error": problem})
            return
        replies = task.result()
        for choice, reply in enumerate(replies):
            rest = texts[choice].rest(reply.text) if choice in texts else reply.text
            yield _event(piece(choice, rest, reply))
        if (last := end(replies)) is not None:
            yield _event(last)
        yield b"data: [DONE]\n\n"
    finally:
        task.cancel()


def _event(content: Mapping[str, Json]) -> bytes:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode("utf-8", errors="replace")


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text that a stop begins with.

    >>> _overlap("one\\n", "\\n\\nUser:"), _overlap("one", "two")
    (1, 0)
    """
    return next((size for size in range(min(len(text), len(stop)), 0, -1) if text.endswith(stop[:size])), 0)
