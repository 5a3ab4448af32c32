"""Computing with scoring models: their device and precision, and questions in batches.

Models block, and are fastest with large batches. So they compute in a thread, one batch at a time, and samples wait for their
scores without delaying requests for other samples: questions that arrive while a batch is computed form the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, Literal, NamedTuple, TypeVar

Precision = Literal["bfloat16", "float32"]
CPU_FLAGS = ("avx512_bf16", "amx_bf16")


class Machine(NamedTuple):
    """The device and the precision of a model's weights."""

    device: str
    precision: Precision


def choose_machine(precision: Precision | None = None) -> Machine:
    """Return the device and precision to use here: a GPU if torch finds one. Precision is part of a scorer's identity."""
    import torch

    if torch.cuda.is_available():
        return Machine("cuda", precision or ("bfloat16" if torch.cuda.is_bf16_supported() else "float32"))
    return Machine("cpu", precision or ("bfloat16" if has_bfloat16() else "float32"))


@contextlib.contextmanager
def hidden_progress_bars() -> Iterator[None]:
    """Hide the progress bars of loading weights, which would mix with pytest's output."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether this processor multiplies bfloat16; False if that is unknown."""
    try:
        flags = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f" {flag} " in f"{line} " for line in flags.splitlines() for flag in CPU_FLAGS)


Question = TypeVar("Question", bound=Hashable)
Answer = TypeVar("Answer")
# Number of cached answers: the arms, repeats and metrics of a sample repeat the same questions.
MAX_CACHED = 50_000


class Batched(Generic[Question, Answer]):
    """Answers questions with `compute`, each distinct question once."""

    def __init__(self, compute: Callable[[Sequence[Question]], Sequence[Answer]], *, batch_size: int) -> None:
        """At most `batch_size` questions are computed at a time."""
        self._compute = compute
        self._batch_size = batch_size
        self._cached: dict[Question, Answer] = {}
        self._waiting: dict[Question, asyncio.Future[Answer]] = {}
        self._computing: dict[Question, asyncio.Future[Answer]] = {}
        self._worker: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, questions: Iterable[Question]) -> list[Answer]:
        """Return the answers, in order. An error of `compute` is raised for all questions of its batch."""
        ordered = list(questions)
        cached = {question: self._cached[question] for question in ordered if question in self._cached}
        pending = {question: self._future(question) for question in ordered if question not in cached}
        if pending:
            await asyncio.wait(
                pending.values()
            )  # awaiting a future itself would cancel it for all when one is cancelled
        return [cached[question] if question in cached else pending[question].result() for question in ordered]

    def _future(self, question: Question) -> asyncio.Future[Answer]:
        loop = asyncio.get_running_loop()
        # Nothing waits on an earlier loop any more.
        if self._loop is not loop:
            self._loop, self._worker, self._waiting, self._computing = loop, None, {}, {}
        shared = self._waiting.get(question) or self._computing.get(question)
        if shared is not None:
            return shared
        self._waiting[question] = future = loop.create_future()
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._run_batches())
        return future

    async def _run_batches(self) -> None:
        while self._waiting:
            # Lets all samples that are being scored enter their questions first.
            await asyncio.sleep(0)
            batch = dict(list(self._waiting.items())[: self._batch_size])
            for question in batch:
                del self._waiting[question]
            self._computing = batch
            await self._compute_batch(batch)
            self._computing = {}

    async def _compute_batch(self, batch: dict[Question, asyncio.Future[Answer]]) -> None:
        try:
            answers = await asyncio.to_thread(self._compute, list(batch))
        except BaseException as error:
            for future in batch.values():
                future.set_exception(error)
                # Retrieved, so that asyncio does not warn if its waiter was cancelled.
                future.exception()
            if not isinstance(error, Exception):
                raise
            return
        self._store(dict(zip(batch, answers, strict=True)))
        for future, answer in zip(batch.values(), answers, strict=True):
            future.set_result(answer)

    def _store(self, answers: dict[Question, Answer]) -> None:
        if len(self._cached) + len(answers) > MAX_CACHED:
            self._cached.clear()
        self._cached |= answers
