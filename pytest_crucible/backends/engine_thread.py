"""The thread in which the embedded model computes, so that the loop stays free; simultaneous requests form one batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pytest_crucible.local_model.engine import Sampler
from pytest_crucible.local_model.sampling import Sampled, SamplingParams

CHUNK = 32
"""Replies in one batch."""
GATHER_S = 0.002
"""Time to wait for further requests of the same moment, so that they share a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedRequest:
    """One request that waits for its reply."""

    sampler: Sampler
    prompt: list[int]
    params: SamplingParams | None
    """None for a prompt that is scored, not answered."""
    answer: Future[Any] = field(default_factory=Future)


class EngineThread:
    """Starts with the first request and ends when none is left.

    Requests that arrive while it computes are answered next, in batches by model and length of at most `CHUNK`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_QueuedRequest] = []
        self._running = False

    def ask(self, sampler: Sampler, prompt: list[int], params: SamplingParams) -> Future[Sampled]:
        """Return a future of the reply. Cancelling it before its turn saves the work."""
        return self._enter(_QueuedRequest(sampler, prompt, params))

    def score(self, sampler: Sampler, prompt: list[int]) -> Future[list[float]]:
        """Return a future of the log-probabilities of a prompt's tokens but the first."""
        return self._enter(_QueuedRequest(sampler, prompt, None))

    def _enter(self, request: _QueuedRequest) -> Future[Any]:
        with self._lock:
            self._waiting.append(request)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="crucible-engine", daemon=True).start()
        return request.answer

    def _run(self) -> None:
        while waiting := self._gather_requests():
            for request in waiting:
                if request.params is None:
                    _score(request)
            for chunk in _chunks(waiting):
                _answer(chunk)

    def _gather_requests(self) -> list[_QueuedRequest]:
        time.sleep(GATHER_S)
        with self._lock:
            waiting, self._waiting = self._waiting, []
            # Set under the lock: a request that arrives now either is in `waiting` or starts a new thread.
            self._running = bool(waiting)
        return waiting


def _chunks(waiting: list[_QueuedRequest]) -> Iterator[list[_QueuedRequest]]:
    # Neighbours in length share a batch, which takes as long as its longest prompt.
    in_order = sorted(
        (request for request in waiting if request.params is not None),
        key=lambda request: (id(request.sampler), len(request.prompt)),
    )
    for _, group in groupby(in_order, key=lambda request: id(request.sampler)):
        of_one = list(group)
        for start in range(0, len(of_one), CHUNK):
            yield of_one[start : start + CHUNK]


def _score(request: _QueuedRequest) -> None:
    if not request.answer.set_running_or_notify_cancel():
        return
    try:
        request.answer.set_result(request.sampler.logprobs(request.prompt).logprobs[1:].tolist())
    except BaseException as error:  # as below
        request.answer.set_exception(error)


def _answer(chunk: list[_QueuedRequest]) -> None:
    requests = [request for request in chunk if request.answer.set_running_or_notify_cancel()]
    if not requests:
        return
    try:
        replies = requests[0].sampler.sample(
            [request.prompt for request in requests],
            [request.params for request in requests if request.params is not None],
        )
    except BaseException as error:  # every waiting request has to end, whatever was raised
        for request in requests:
            request.answer.set_exception(error)
    else:
        for request, reply in zip(requests, replies, strict=True):
            request.answer.set_result(reply)
