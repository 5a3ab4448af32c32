"""A model that is asked from many samples at a time: what gathers while it computes is computed together, next.

Models block, and are fastest when they are given much at once. So they compute in a thread, one batch at a time, and
the samples that are scored wait for theirs without holding up those that are asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
KEPT = 50_000
"""Answers that are remembered: the arms and repeats of a sample, and its metrics, ask the same again."""


class Batched(Generic[Question, Answer]):
    """Answers questions by `compute`, each distinct one once."""

    def __init__(self, compute: Callable[[Sequence[Question]], Sequence[Answer]], *, most: int) -> None:
        """`most` questions are computed at a time."""
        self._compute = compute
        self._most = most
        self._known: dict[Question, Answer] = {}
        self._waiting: dict[Question, asyncio.Future[Answer]] = {}
        self._asked: dict[Question, asyncio.Future[Answer]] = {}
        self._working: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, questions: Iterable[Question]) -> list[Answer]:
        """The answers, in order. Raises what `compute` raises, to all whose questions were in the batch."""
        wanted = list(questions)
        known = {one: self._known[one] for one in wanted if one in self._known}
        asked = {one: self._future(one) for one in wanted if one not in known}
        if asked:
            await asyncio.wait(asked.values())  # not one by one: to await a future is to cancel it for all
        return [known[one] if one in known else asked[one].result() for one in wanted]

    def _future(self, question: Question) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # of an earlier one nobody waits any more
            self._loop, self._working, self._waiting, self._asked = loop, None, {}, {}
        found = self._waiting.get(question) or self._asked.get(question)
        if found is not None:
            return found
        self._waiting[question] = future = loop.create_future()
        if self._working is None or self._working.done():
            self._working = loop.create_task(self._work())
        return future

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # all samples that are scored just now may ask first
            batch = dict(list(self._waiting.items())[: self._most])
            for question in batch:
                del self._waiting[question]
            self._asked = batch
            await self._answer(batch)
            self._asked = {}

    async def _answer(self, batch: dict[Question, asyncio.Future[Answer]]) -> None:
        try:
            answers = await asyncio.to_thread(self._compute, list(batch))
        except BaseException as error:
            for future in batch.values():
                future.set_exception(error)
                future.exception()  # whoever asked may have been cancelled: then nobody looks
            if not isinstance(error, Exception):
                raise
            return
        self._remember(dict(zip(batch, answers, strict=True)))
        for future, answer in zip(batch.values(), answers, strict=True):
            future.set_result(answer)

    def _remember(self, answers: dict[Question, Answer]) -> None:
        if len(self._known) + len(answers) > KEPT:
            self._known.clear()
        self._known |= answers
