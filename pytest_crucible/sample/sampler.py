"""The `sampler` of a test function, and the streams of its replies; in a plain `def` without await."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from pytest_crucible.backends.cache import without_credentials
from pytest_crucible.backends.protocol import Backend, system_prompt
from pytest_crucible.records import Arm, ModelCall, OpenStream, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, describe_type
from pytest_crucible.records.serialize import canonical

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


T = TypeVar("T")


class InputEdit(Protocol):
    """Changes the inputs of one unit's requests before they are recorded and sent."""

    @property
    def draw(self) -> int | str | None:
        """The name of the unit's draw in the reply cache's key."""

    def __call__(self, input: Any, parameters: Mapping[str, Any]) -> Any:
        """Return the input to send. Raises BackendError to send nothing."""


class Sampler:
    """Sends the requests of one unit to its arm, and records them."""

    __slots__ = (
        "_arm",
        "_backend",
        "_calls",
        "_edit",
        "_experiment",
        "_is_trial",
        "_role",
        "_scored_arm",
        "_sent",
        "_streams",
        "_system",
        "_unit",
    )

    def __init__(
        self,
        backend: Backend,
        arm: Arm,
        sample: str,
        repeat: int,
        experiment: str = "",
        calls: list[ModelCall] | None = None,
        draw: int | str | None = None,
        *,
        is_trial: bool = False,
        role: str = "",
        scored_arm: str = "",
        edit: InputEdit | None = None,
    ) -> None:
        """`calls` receives a record of each call, which is not stored of a trial.

        `draw` is the repeat in the reply cache's key, if that differs. `role` is that of this arm, `role:planner`, where the
        unit's own arm, `scored_arm`, is another one.
        """
        self._backend, self._system, self._arm, self._experiment = backend, system_prompt(backend), arm, experiment
        self._unit = sample, repeat, draw
        self._calls, self._is_trial = [] if calls is None else calls, is_trial
        self._role, self._scored_arm, self._edit = role, scored_arm, edit
        self._sent: dict[int, int] = {}
        """How often each request was sent, by its hash: a list of messages may grow between two calls."""
        self._streams: list[ReplyStream] = []

    @property
    def arm(self) -> Arm:
        """The arm that replies."""
        return self._arm

    @property
    def backend(self) -> Backend:
        """The arm's backend, within its wrappers."""
        return self._backend

    @property
    def variables(self) -> Mapping[str, Any]:
        """The adapter's `variables`, without `prompt`, which is an argument of the test function."""
        return {name: value for name, value in self._arm.variables.items() if name != "prompt"}

    async def generate(self, input: Any, /, **parameters: Any) -> Reply:
        """Send a request and return the reply; parameters override the adapter's. Raises BackendError: the sample is lost."""
        return await self._send(input, parameters)

    def stream(self, input: Any, /, **parameters: Any) -> ReplyStream:
        """Return the pieces of a reply as they come: `async for piece in sampler.stream(prompt)`, then its `reply`.

        The request, its cost and its reply are those of `generate`.
        """
        stream = ReplyStream(lambda open_stream: self._send(input, parameters, open_stream))
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        """Cancel the streams that were not read to their end, and wait until each is recorded: the sample is over."""
        for stream in self._streams:
            stream.close()
        for stream in self._streams:
            await stream.wait_closed()

    async def _send(self, input: Any, parameters: Mapping[str, Any], open_stream: OpenStream | None = None) -> Reply:
        merged = {**self._arm.parameters, **parameters} if parameters else self._arm.parameters
        if self._edit is not None:
            input = self._edit(input, merged)
        call = self._record(input, merged)
        sample, repeat, draw = self._unit
        request = Request(
            input=input,
            sample=sample,
            repeat=repeat,
            draw=draw,
            parameters=merged,
            experiment=self._experiment,
            arm=self._role or self._arm.name,
            scored_arm=self._scored_arm,
            call=call.request,
            unit_call=0 if self._is_trial else len(self._calls),
            open_stream=open_stream,
        )
        try:
            call.reply = await self._reply(request)
        except BaseException as error:
            call.error = f"{type(error).__name__}: {error}".splitlines()[0]
            raise
        return call.reply

    async def choose(self, prompt: str, choices: Sequence[str], /) -> Reply:
        """Return the most probable of several choices after a prompt; its `value` has their probabilities. Nothing is generated."""
        reply = await self.generate(prompt, choices=list(choices))
        if not isinstance(reply.value, Mapping):
            raise Refused(
                f"adapter {self._arm.name!r} cannot score choices; use a backend with prompt logprobs: local, Tinker or an "
                "OpenAI-compatible server with echo"
            )
        return reply

    async def _reply(self, request: Request) -> Reply:
        started = time.perf_counter()
        reply = await self._backend.generate(request)
        if not isinstance(reply, Reply):
            raise BackendError(
                f"the backend of {self._arm.name!r} returned {describe_type(reply)}: generate() must return a Reply"
            )
        if reply.latency_s is None:
            reply = dataclasses.replace(reply, latency_s=time.perf_counter() - started)
        return reply

    def _record(self, input: Any, parameters: Mapping[str, Any]) -> ModelCall:
        # Headers hold keys: they are neither stored nor part of what makes two requests equal.
        is_arms = parameters is self._arm.parameters or parameters == self._arm.parameters
        own = None if is_arms else without_credentials(parameters)
        is_json = not isinstance(input, str)
        try:
            text = canonical(input) if is_json else input
            settings = "" if own is None else canonical(own)
            digest = hash((text, is_json, settings))
            number = self._sent[digest] = self._sent.get(digest, 0) + 1
        except (TypeError, ValueError):
            # JSON has no form for it: it is not cached either, and its draws need no numbers.
            text, number, own, settings = canonical(repr(input)) if is_json else input, 1, None, ""
        self._calls.append(ModelCall(text, is_json, number, own, self._system, judge=self._role, settings=settings))
        return self._calls[-1]


class BlockingSampler:
    """The sampler of a function that is not async: it runs in a thread and waits for the loop."""

    __slots__ = ("_calls", "_is_closed", "_loop", "_sampler")

    def __init__(self, sampler: Sampler, loop: asyncio.AbstractEventLoop) -> None:
        self._sampler = sampler
        self._loop = loop
        self._calls: set[Future[Any]] = set()
        self._is_closed = False

    @property
    def arm(self) -> Arm:
        return self._sampler.arm

    @property
    def variables(self) -> Mapping[str, Any]:
        return self._sampler.variables

    def generate(self, input: Any, /, **parameters: Any) -> Reply:
        """Send a request and wait for the reply."""
        return self._wait(self._sampler.generate(input, **parameters))

    def stream(self, input: Any, /, **parameters: Any) -> BlockingReplyStream:
        """Return the pieces of a reply as they come: `for piece in sampler.stream(prompt)`, then its `reply`."""
        return BlockingReplyStream(self._sampler.stream(input, **parameters), self._wait)

    def choose(self, prompt: str, choices: Sequence[str], /) -> Reply:
        """Return the most probable of several choices after a prompt, with the probabilities of all of them as its `value`."""
        return self._wait(self._sampler.choose(prompt, choices))

    def _wait(self, request: Coroutine[Any, Any, T]) -> T:
        call = asyncio.run_coroutine_threadsafe(request, self._loop)
        self._calls.add(call)
        if self._is_closed:
            call.cancel()
        try:
            return call.result()
        finally:
            self._calls.discard(call)

    async def close(self) -> None:
        """Cancel the calls in flight and all later ones: the sample is over. Runs on the sampling loop."""
        self._is_closed = True
        for call in tuple(self._calls):
            call.cancel()
        await self._sampler.close()
