"""The thread in which the embedded model computes: the loop goes on meanwhile, and what is asked together is answered together."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby

from pytest_crucible.embedded.engine import Sampler
from pytest_crucible.embedded.sampling import Sampled, SamplingParams

CHUNK = 32
"""Replies that are made together."""
GATHER_S = 0.002
"""How long to wait for requests that come in the same moment."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """One reply that is wanted."""

    sampler: Sampler
    prompt: list[int]
    params: SamplingParams
    answer: Future[Sampled] = field(default_factory=Future)


class EngineThread:
    """Starts when something is asked and ends when nothing is.

    What comes while it computes is answered next: by model and length, up to `CHUNK` at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Asked] = []
        self._running = False

    def ask(self, sampler: Sampler, prompt: list[int], params: SamplingParams) -> Future[Sampled]:
        """A reply, some time. Cancelling it before its turn spares the work."""
        asked = _Asked(sampler, prompt, params)
        with self._lock:
            self._waiting.append(asked)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="crucible-engine", daemon=True).start()
        return asked.answer

    def _run(self) -> None:
        while waiting := self._gathered():
            for chunk in _chunks(waiting):
                _answer(chunk)

    def _gathered(self) -> list[_Asked]:
        time.sleep(GATHER_S)
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._running = bool(waiting)
        return waiting


def _chunks(waiting: list[_Asked]) -> Iterator[list[_Asked]]:
    in_order = sorted(waiting, key=lambda one: (id(one.sampler), len(one.prompt)))
    for _, group in groupby(in_order, key=lambda one: id(one.sampler)):
        of_one = list(group)
        for start in range(0, len(of_one), CHUNK):
            yield of_one[start : start + CHUNK]


def _answer(chunk: list[_Asked]) -> None:
    wanted = [one for one in chunk if one.answer.set_running_or_notify_cancel()]
    if not wanted:
        return
    try:
        replies = wanted[0].sampler.sample([one.prompt for one in wanted], [one.params for one in wanted])
    except BaseException as error:  # whoever waits has to hear of it
        for one in wanted:
            one.answer.set_exception(error)
    else:
        for one, reply in zip(wanted, replies, strict=True):
            one.answer.set_result(reply)
