"""The `sampler` of a test function: `await sampler.generate(...)`, or without await in a plain `def`."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from pytest_crucible.backends.cache import without_credentials
from pytest_crucible.backends.protocol import Backend, system_prompt
from pytest_crucible.records import Arm, ModelCall, OpenStream, Reply, Request
from pytest_crucible.records.errors import BackendError, Refused, describe_type
from pytest_crucible.records.serialize import canonical
from pytest_crucible.sample.reply_stream import BlockingReplyStream, ReplyStream

T = TypeVar("T")


class Sampler:
    """Sends the requests of one unit to its arm, and records them."""

    __slots__ = (
        "_arm",
        "_backend",
        "_calls",
        "_draw",
        "_experiment",
        "_repeat",
        "_sample",
        "_sent",
        "_streams",
        "_system",
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
    ) -> None:
        """`calls` receives a record of each call; `draw` is the repeat in the reply cache's key, if that differs."""
        self._backend = backend
        self._calls = [] if calls is None else calls
        self._system = system_prompt(backend)
        self._arm = arm
        self._sample = sample
        self._repeat, self._draw = repeat, draw
        self._experiment = experiment
        self._sent: dict[int, int] = {}
        """How often each request was sent, by its hash: a list of messages may grow between two calls."""
        self._streams: list[ReplyStream] = []

    @property
    def arm(self) -> Arm:
        """The arm that replies."""
        return self._arm

    @property
    def variables(self) -> Mapping[str, Any]:
        """The adapter's `variables`, without `prompt`, which is an argument of the test function."""
        return {name: value for name, value in self._arm.variables.items() if name != "prompt"}

    async def generate(self, input: Any, /, **parameters: Any) -> Reply:
        """Send a request and return the reply. Parameters given here override the adapter's.

        Raises BackendError when there is no reply: the sample is then lost, not wrong.
        """
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
        call = self._record(input, merged)
        request = Request(
            input=input,
            sample=self._sample,
            repeat=self._repeat,
            draw=self._draw,
            parameters=merged,
            experiment=self._experiment,
            arm=self._arm.name,
            call=call.request,
            open_stream=open_stream,
        )
        try:
            call.reply = await self._reply(request)
        except BaseException as error:
            call.error = f"{type(error).__name__}: {error}".splitlines()[0]
            raise
        return call.reply

    async def choose(self, prompt: str, choices: Sequence[str], /) -> Reply:
        """Return the most probable of several choices after a prompt, with the probabilities of all of them as its `value`.

        Nothing is generated: the backend scores the prompt with each choice. Raises BackendError as `generate` does, and Refused
        for a backend that cannot score prompts.
        """
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
        own = None if parameters == self._arm.parameters else without_credentials(parameters)
        is_json = not isinstance(input, str)
        try:
            text = canonical(input) if is_json else input
            number = self._count(hash((text, is_json, None if own is None else canonical(own))))
        except (
            TypeError,
            ValueError,
            # JSON has no form for it: it is not cached either, and its draws need no numbers.
        ):
            text, number, own = canonical(repr(input)) if is_json else input, 1, None
        call = ModelCall(text, is_json, number, own, self._system)
        self._calls.append(call)
        return call

    def _count(self, digest: int) -> int:
        number = self._sent[digest] = self._sent.get(digest, 0) + 1
        return number


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
        """The arm that replies."""
        return self._sampler.arm

    @property
    def variables(self) -> Mapping[str, Any]:
        """The adapter's `variables`, without `prompt`, which is an argument of the test function."""
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
