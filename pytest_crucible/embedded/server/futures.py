"""Answers that are fetched later: each request gets an id at once, and its result under that id when it is there.

A result stays after it was fetched, for a client whose connection broke meanwhile, until newer ones need the room. A request
that is sent twice has the same id and is worked on once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from http import HTTPStatus

from pytest_crucible.embedded.server.messages import Refusal, Response, json_response


@dataclass(frozen=True, slots=True)
class Room:
    """How much is kept."""

    unfinished: int = 20_000
    fetched_bytes: int = 32 * 1024 * 1024
    unfetched_bytes: int = 512 * 1024 * 1024


class Futures:
    """Results by request id, those not yet there included."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = room or Room()
        self._results: dict[str, asyncio.Future[Response]] = {}
        self._unfinished = 0
        self._unfetched, self._fetched = _Shelf(), _Shelf()

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._results

    def add(self, request_id: str, result: asyncio.Future[Response]) -> None:
        """Keep the result of a request under its id; too many unfinished ones are a refusal (429)."""
        self.check_room()
        self._unfinished += 1
        self._results[request_id] = result
        result.add_done_callback(lambda done: self._finished(request_id, done))

    def check_room(self) -> None:
        """Refuse when no more requests can wait."""
        if self._unfinished >= self._room.unfinished:
            sentence = f"{self._unfinished} requests are waiting; fetch or cancel some before sending more"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, sentence)

    async def fetch(self, request_id: str, patience_s: float) -> Response:
        """Wait for a result. 408 when it is not there yet, 410 when nobody knows of it (any more)."""
        result = self._results.get(request_id)
        if result is None:
            raise Refusal(HTTPStatus.GONE, f"request {request_id!r} is not known here (any more)")
        if not result.done():
            await asyncio.wait((result,), timeout=patience_s)
        if not result.done():
            waiting = {"type": "try_again", "request_id": request_id, "queue_state": "active"}
            return json_response(waiting, HTTPStatus.REQUEST_TIMEOUT)
        self._move_to_fetched(request_id)
        return result.result()

    def cancel(self, request_id: str) -> None:
        """Give a request up when it has not begun; a finished or unknown one is left as it is."""
        if (result := self._results.get(request_id)) and not result.done():
            result.set_result(failure("the request was cancelled", "user"))

    def forget(self, request_id: str) -> None:
        """Let go of a result that its client has in full."""
        if (result := self._results.get(request_id)) and result.done() and request_id in self._fetched:
            self._fetched.take(request_id)
            self._drop([request_id])

    def fail_all(self, sentence: str) -> None:
        """End everything unfinished: nobody works on it any more."""
        for result in tuple(self._results.values()):
            if not result.done():
                result.set_result(failure(sentence, "server"))

    def _finished(self, request_id: str, result: asyncio.Future[Response]) -> None:
        self._unfinished -= 1
        if request_id not in self._fetched:  # somebody may have been quicker than this callback
            self._unfetched.put(request_id, len(result.result().body))
            self._drop(self._unfetched.overflow(self._room.unfetched_bytes))

    def _move_to_fetched(self, request_id: str) -> None:
        self._unfetched.take(request_id)
        self._fetched.take(request_id)
        self._fetched.put(request_id, len(self._results[request_id].result().body))
        self._drop(self._fetched.overflow(self._room.fetched_bytes))

    def _drop(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            del self._results[request_id]


def failure(sentence: str, category: str) -> Response:
    """A result that says why there is none: the SDK raises RequestFailedError. Category is user, server or unknown."""
    return json_response({"error": sentence, "category": category})


class _Shelf:
    """Sizes by id, oldest first."""

    _PER_RESULT = 500
    """Bytes that a result costs besides its body."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._sizes

    def put(self, request_id: str, size: int) -> None:
        self._sizes[request_id] = size + self._PER_RESULT
        self._total += size + self._PER_RESULT

    def take(self, request_id: str) -> None:
        """Take an id off, if it is here."""
        self._total -= self._sizes.pop(request_id, 0)

    def overflow(self, limit: int) -> list[str]:
        """Take off the oldest until the rest fits; the newest always stays."""
        gone = []
        while self._total > limit and len(self._sizes) > 1:
            request_id, size = self._sizes.popitem(last=False)
            self._total -= size
            gone.append(request_id)
        return gone
