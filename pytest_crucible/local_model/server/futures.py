"""Results that are fetched later: each request gets an id at once, and its result is kept under that id.

A fetched result is kept, in case the client's connection broke meanwhile, until newer ones need the space. A request that is
sent twice has the same id and is computed once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from http import HTTPStatus

from pytest_crucible.local_model.server.messages import Refusal, Response, json_response


@dataclass(frozen=True, slots=True)
class Capacity:
    """Limits on the number and size of kept results."""

    unfinished: int = 20_000
    fetched_bytes: int = 32 * 1024 * 1024
    unfetched_bytes: int = 512 * 1024 * 1024


class Futures:
    """Results by request id, including pending ones."""

    def __init__(self, capacity: Capacity | None = None) -> None:
        self._capacity = capacity or Capacity()
        self._results: dict[str, asyncio.Future[Response]] = {}
        self._unfinished = 0
        # Two queues, so that fetched results do not displace those still to be fetched.
        self._unfetched, self._fetched = _SizeQueue(), _SizeQueue()

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._results

    def add(self, request_id: str, result: asyncio.Future[Response]) -> None:
        """Keep the result of a request under its id. Refuses (429) if too many are unfinished."""
        self.check_capacity()
        self._unfinished += 1
        self._results[request_id] = result
        result.add_done_callback(lambda done: self._on_finished(request_id, done))

    def check_capacity(self) -> None:
        """Refuse if no more requests can wait."""
        if self._unfinished >= self._capacity.unfinished:
            sentence = f"{self._unfinished} requests are waiting; fetch or cancel some before sending more"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, sentence)

    async def fetch(self, request_id: str, patience_s: float) -> Response:
        """Wait for a result: 408 if it is not finished in time, 410 if the id is unknown or no longer kept."""
        result = self._results.get(request_id)
        if result is None:
            raise Refusal(
                HTTPStatus.GONE, f"request {request_id!r} is unknown, or its result is no longer kept: send it again"
            )
        if not result.done():
            await asyncio.wait((result,), timeout=patience_s)
        if not result.done():
            waiting = {"type": "try_again", "request_id": request_id, "queue_state": "active"}
            return json_response(waiting, HTTPStatus.REQUEST_TIMEOUT)
        self._move_to_fetched(request_id)
        return result.result()

    def cancel(self, request_id: str) -> None:
        """Cancel a request that has not begun; a finished or unknown one is left as it is."""
        if (result := self._results.get(request_id)) and not result.done():
            result.set_result(failure_response("the request was cancelled", "user"))

    def forget(self, request_id: str) -> None:
        """Drop a result that its client has received in full."""
        if (result := self._results.get(request_id)) and result.done() and request_id in self._fetched:
            self._fetched.pop(request_id)
            self._drop([request_id])

    def fail_all(self, sentence: str) -> None:
        """Fail all unfinished requests, because they will not be computed any more."""
        for result in tuple(self._results.values()):
            if not result.done():
                result.set_result(failure_response(sentence, "server"))

    def _on_finished(self, request_id: str, result: asyncio.Future[Response]) -> None:
        self._unfinished -= 1
        # It may have been fetched before this callback ran.
        if request_id not in self._fetched:
            self._unfetched.put(request_id, len(result.result().body))
            self._drop(self._unfetched.overflow(self._capacity.unfetched_bytes))

    def _move_to_fetched(self, request_id: str) -> None:
        self._unfetched.pop(request_id)
        self._fetched.pop(request_id)
        self._fetched.put(request_id, len(self._results[request_id].result().body))
        self._drop(self._fetched.overflow(self._capacity.fetched_bytes))

    def _drop(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            del self._results[request_id]


def failure_response(sentence: str, category: str) -> Response:
    """Return a failed result: the SDK raises RequestFailedError. Category is user, server or unknown."""
    return json_response({"error": sentence, "category": category})


class _SizeQueue:
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

    def pop(self, request_id: str) -> None:
        """Remove an id, if it is here."""
        self._total -= self._sizes.pop(request_id, 0)

    def overflow(self, limit: int) -> list[str]:
        """Remove the oldest until the rest fits; the newest always stays."""
        dropped = []
        while self._total > limit and len(self._sizes) > 1:
            request_id, size = self._sizes.popitem(last=False)
            self._total -= size
            dropped.append(request_id)
        return dropped
