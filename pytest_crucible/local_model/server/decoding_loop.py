"""Sampling in a thread of its own: requests of all clients join at the next token, and leave at their last.

Each base model has a batch, with rows of all adapters on it, and another one for long prompts, whose rows would slow down short
ones. The batch that has had the least time is next, so that a short reply ends beside a neighbour's many long ones. Prompts are
read in a thread beside, a piece of each by turns, so that a short one does not wait for the long ones before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from http import HTTPStatus

from pytest_crucible.local_model.decoding import Prefilled
from pytest_crucible.local_model.engine import Engine, Sampler
from pytest_crucible.local_model.reading import PromptReading
from pytest_crucible.local_model.sampling import Batch, Ended, Reply, Sampled, SamplingParams, request_replies
from pytest_crucible.local_model.server.transport import Refusal
from pytest_crucible.local_model.training import one_thread
from pytest_crucible.quick_dataclass import dataclass

SLICE_S = 0.01
"""Tokens of one model follow each other for so long, while its matrices are in the processor's cache."""
LONG = 512
"""Positions of the longest row in the batch of short ones."""


@dataclass(slots=True, eq=False)
class _Answer:
    """The replies to one request, which come one by one."""

    future: asyncio.Future[list[Sampled]]
    replies: dict[int, Sampled] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    sampler: Sampler
    prompt: Sequence[int]
    params: SamplingParams
    topk: int
    client: Hashable
    answer: _Answer


@dataclass(slots=True, eq=False)
class _Lane:
    """A batch, and the seconds that it has had."""

    key: tuple[Engine, bool]
    batch: Batch
    used_s: float


class DecodingLoop:
    """Samples for one event loop, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._new: list[_Request] = []
        self._lanes: dict[tuple[Engine, bool], _Lane] = {}
        self._is_stopped = False
        self._reader = ThreadPoolExecutor(1, "embedded-model-reader")
        # A daemon: a computation that does not end must not keep the process.
        self._thread = threading.Thread(target=self._run, name="embedded-model-decoding", daemon=True)
        self._thread.start()

    def ask(
        self, sampler: Sampler, prompt: Sequence[int], params: SamplingParams, topk: int, client: Hashable
    ) -> asyncio.Future[list[Sampled]]:
        """Return a future of the replies to a prompt. When it is cancelled, they end at their next token."""
        future: asyncio.Future[list[Sampled]] = self._loop.create_future()
        if self._is_stopped:
            # Its thread has ended: the future would wait for ever.
            future.set_exception(Refusal("the server was stopped", HTTPStatus.SERVICE_UNAVAILABLE))
            return future
        abandoned = threading.Event()
        future.add_done_callback(lambda done: abandoned.set() if done.cancelled() else None)
        params = replace(params, is_abandoned=abandoned.is_set)
        with self._changed:
            self._new.append(_Request(sampler, prompt, params, topk, client, _Answer(future)))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """Add no further token; whatever is asked later fails."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def join(self, patience_s: float = 5.0) -> None:
        """Wait until the present token is there; call it after `stop`."""
        self._thread.join(patience_s)

    def _run(self) -> None:
        while self._take_new():
            # Once for all tokens: a matrix library takes long to change its number of threads.
            with one_thread():
                while self._lanes and self._take_new():
                    self._step()
        self._reader.shutdown(wait=False, cancel_futures=True)

    def _take_new(self) -> bool:
        """Wait for something to do, and take in new requests; return False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._new or self._ready_lanes())
            new, self._new = self._new, []
        for request in new:
            self._take_in(request)
        return not self._is_stopped

    def _ready_lanes(self) -> list[_Lane]:
        return [lane for lane in self._lanes.values() if lane.batch.is_ready]

    def _take_in(self, request: _Request) -> None:
        try:
            weights, engine = request.sampler.weights, request.sampler.engine
            replies = request_replies(
                weights, request.prompt, request.params, engine.shape, request.topk, request.answer
            )
        except Exception as error:
            self._deliver(request.answer, error)
        else:
            self._lane(engine, is_long=replies[0].positions > LONG).batch.add(replies, request.client)

    def _lane(self, engine: Engine, *, is_long: bool) -> _Lane:
        key = engine, is_long
        if key not in self._lanes:
            # What others have had before does not count.
            used_s = min((lane.used_s for lane in self._lanes.values()), default=0.0)
            batch = Batch(engine.folded, engine.shape, engine.tokenizer, submit=self._read)
            self._lanes[key] = _Lane(key, batch, used_s)
        return self._lanes[key]

    def _read(self, reading: PromptReading) -> Future[Prefilled]:
        """Read a prompt in the thread beside, and wake this one at its end."""
        done: Future[Prefilled] = Future()
        done.add_done_callback(lambda _: self._wake())
        self._reader.submit(self._read_piece, reading, done)
        return done

    def _read_piece(self, reading: PromptReading, done: Future[Prefilled]) -> None:
        """Read the next piece of a prompt; what follows it waits behind the pieces of others."""
        try:
            with one_thread():
                row = reading.read_piece()
            if row is None:
                self._reader.submit(self._read_piece, reading, done)
            else:
                done.set_result(row)
        except Exception as error:
            done.set_exception(error)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _step(self) -> None:
        """Add tokens to the rows of the batch that has had the least time, for a slice of it."""
        if not (lanes := self._ready_lanes()):
            return
        lane, started = min(lanes, key=lambda each: each.used_s), time.perf_counter()
        while lane.batch.is_ready and time.perf_counter() - started < SLICE_S:
            for request, reply in _step_batch(lane.batch):
                self._record(request, reply)
        lane.used_s += time.perf_counter() - started
        if lane.batch.is_empty:
            del self._lanes[lane.key]

    def _record(self, request: Reply, reply: Sampled | Exception) -> None:
        answer: _Answer = request.owner
        if isinstance(reply, Exception):
            self._deliver(answer, reply)
            return
        answer.replies[request.number] = reply
        if len(answer.replies) == request.params.num_samples:
            self._deliver(answer, [answer.replies[number] for number in range(request.params.num_samples)])

    def _deliver(self, answer: _Answer, outcome: list[Sampled] | Exception) -> None:
        # The loop has closed: nothing waits for the result.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle, answer.future, outcome)


def _step_batch(batch: Batch) -> list[Ended]:
    try:
        batch.fill()
        return batch.step()
    except Exception as error:
        return [(request, error) for request in batch.clear()]


def _settle(future: asyncio.Future[list[Sampled]], outcome: list[Sampled] | Exception) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
