"""What a test function is handed to ask its arm: `await sampler.generate(...)`, or without await in a plain `def`."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from pytest_crucible.backends.protocol import Backend
from pytest_crucible.errors import BackendError
from pytest_crucible.records import Arm, Reply, Request
from pytest_crucible.wire import canonical


class Sampler:
    """One arm, one sample, one repeat."""

    __slots__ = ("_arm", "_asked", "_backend", "_epoch", "_experiment", "_sample")

    def __init__(self, backend: Backend, arm: Arm, sample: str, epoch: int, experiment: str = "") -> None:
        self._backend = backend
        self._arm = arm
        self._sample = sample
        self._epoch = epoch
        self._experiment = experiment
        self._asked: dict[int, int] = {}
        """How often each question was asked, by the hash of what it says: a list of messages may grow in between."""

    @property
    def arm(self) -> Arm:
        """The arm that is asked."""
        return self._arm

    async def generate(self, input: Any, /, **parameters: Any) -> Reply:
        """Ask the model. Parameters given here win over the adapter's.

        Raises BackendError when no answer can be had: then the sample is lost, not wrong.
        """
        request = self._request(input, parameters)
        started = time.perf_counter()
        reply = await self._backend.generate(request)
        if not isinstance(reply, Reply):
            raise BackendError(
                f"the backend of {self._arm.name!r} answered a {type(reply).__name__}: it must be a Reply"
            )
        if reply.latency_s is None:
            reply = dataclasses.replace(reply, latency_s=time.perf_counter() - started)
        return reply

    def _request(self, input: Any, parameters: Mapping[str, Any]) -> Request:
        merged = {**self._arm.parameters, **parameters} if parameters else self._arm.parameters
        return Request(
            input=input,
            sample=self._sample,
            epoch=self._epoch,
            parameters=merged,
            experiment=self._experiment,
            arm=self._arm.name,
            call=self._count(input, merged),
        )

    def _count(self, input: Any, parameters: Mapping[str, Any]) -> int:
        try:
            plain = isinstance(input, str) and parameters == self._arm.parameters
            said = hash(input if plain else canonical([input, parameters]))
        except (
            TypeError,
            ValueError,
        ):  # without a plain form it is not kept, so that nobody needs to tell its calls apart
            return 1
        number = self._asked[said] = self._asked.get(said, 0) + 1
        return number


class BlockingSampler:
    """The same for functions that are not async: they run in threads, and wait for the loop."""

    __slots__ = ("_calls", "_is_closed", "_loop", "_sampler")

    def __init__(self, sampler: Sampler, loop: asyncio.AbstractEventLoop) -> None:
        self._sampler = sampler
        self._loop = loop
        self._calls: set[Future[Reply]] = set()
        self._is_closed = False

    @property
    def arm(self) -> Arm:
        """The arm that is asked."""
        return self._sampler.arm

    def generate(self, input: Any, /, **parameters: Any) -> Reply:
        """Ask the model and wait for its reply."""
        call = asyncio.run_coroutine_threadsafe(self._sampler.generate(input, **parameters), self._loop)
        self._calls.add(call)
        if self._is_closed:
            call.cancel()
        try:
            return call.result()
        finally:
            self._calls.discard(call)

    def close(self) -> None:
        """The sample is over: what is still asked for it is cancelled, and so is whatever comes later."""
        self._is_closed = True
        for call in tuple(self._calls):
            call.cancel()
