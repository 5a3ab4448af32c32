"""The cached replies of the driver's run store, which its workers read through an actor.

The driver answers the queries itself: its store may be a file that no node can read, or have a password.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_crucible.records.errors import CrucibleError, StoreError
from pytest_crucible.store.replies import ReplyRows

Query = tuple[int, str, tuple[Any, ...]]
"""A number, the name of a method of ReplyRows, and its arguments."""


class ReplyDesk:
    """Hands queries of workers to the driver, and its answers to the workers; the actor."""

    def __init__(self) -> None:
        self._queries: asyncio.Queue[Query] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._number = 0

    async def ping(self) -> None:
        """Return: the process is alive."""

    async def query(self, method: str, *arguments: Any) -> Any:
        """Return the driver's answer. Raises StoreError."""
        self._number += 1
        number, answer = self._number, asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        await self._queries.put((number, method, arguments))
        result = await answer
        if isinstance(result, CrucibleError):
            raise result
        return result

    async def next_query(self) -> Query:
        """Return the next query, as soon as there is one."""
        return await self._queries.get()

    async def answer(self, number: int, result: Any) -> None:
        """Take the driver's answer, or the error that it raised."""
        self._answers.pop(number).set_result(result)


def answer_queries(desk: Any, rows: ReplyRows) -> None:
    """Answer the queries of workers, in a thread of the driver that ends with the actor."""
    threading.Thread(target=_answer_all, args=(desk, rows), name="crucible-replies", daemon=True).start()


def _answer_all(desk: Any, rows: ReplyRows) -> None:
    import ray

    while True:
        try:
            number, method, arguments = ray.get(desk.next_query.remote())
        except Exception:  # the actor was ended, or the connection
            return
        try:
            result = getattr(rows, method)(*arguments)
        except Exception as error:  # else the worker would wait for ever
            result = (
                error if isinstance(error, CrucibleError) else StoreError(f"the run store cannot be read: {error!r}")
            )
        desk.answer.remote(number, result)


class RemoteRows:
    """A worker's side. Its methods are called in threads that may wait."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk

    def read(self, keys: Sequence[str], most: int) -> tuple[list[Mapping[str, Any]], list[str]]:
        import ray

        answer: tuple[list[Mapping[str, Any]], list[str]] = ray.get(self._desk.query.remote("read", list(keys), most))
        return answer

    def find_adapter(self, settings: str) -> tuple[str, Mapping[str, str]] | None:
        import ray

        answer: tuple[str, Mapping[str, str]] | None = ray.get(self._desk.query.remote("find_adapter", settings))
        return answer
