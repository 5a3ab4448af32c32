"""The caching wrapper: a request that was paid for once is not sent again.

A cached reply keeps its text, tokens, cost and original latency, and is marked `cached`. Errors and lost samples are not
cached; a reply that was truncated or withheld is the model's answer, and is cached.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from pytest_crucible.backends.cache.keys import reply_key
from pytest_crucible.backends.cache.policy import CachedReply, CachePolicy
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.sample_clock import note_answer
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Emit, Event, Reply, Request
from pytest_crucible.records.errors import Uncached


class Cached(Wrapper):
    """The outermost wrapper: a cache hit needs neither a permit nor a request."""

    def __init__(self, inner: Backend, policy: CachePolicy, emit: Emit) -> None:
        super().__init__(inner)
        self._policy = policy
        self._emit = emit

    async def generate(self, request: Request) -> Reply:
        """Raises Uncached if no model may be called, otherwise what the backend raises."""
        self._policy.tally(request.experiment, request.arm).requests += 1
        # None: the request is not JSON (bytes, sets), so it cannot be recognised and is sent each time.
        key = reply_key(self.identity, request)
        if key is None:
            return await self._send(request)
        # Two tests that send the same request at the same time pay once: the second waits for the first.
        in_flight = self._policy.in_flight
        while (other := in_flight.get(key)) is not None:
            await other.wait()
        in_flight[key] = done = asyncio.Event()
        try:
            return await self._lookup(key, request) or await self._send_and_store(key, request)
        finally:
            del in_flight[key]
            done.set()

    async def _lookup(self, key: str, request: Request) -> Reply | None:
        cached = await self._policy.replies.get(key)
        if cached is None or (cached.at < self._policy.begun and self._policy.is_refreshed(request.arm)):
            return None
        # The model has answered this sample before: what is late now is not its server alone.
        note_answer()
        tally = self._policy.tally(request.experiment, request.arm)
        tally.hits += 1
        tally.oldest = min(tally.oldest, cached.at)
        self._emit(Event.about("cache.hit", request, facts={"kept_at": cached.at}))
        return cached.reply

    async def _send_and_store(self, key: str, request: Request) -> Reply:
        started = time.perf_counter()
        reply = await self._send(request)
        # An invalid reply is reported by the experiment.
        if isinstance(reply, Reply):
            if reply.latency_s is None:
                # Measured here, because a hit cannot measure it later.
                reply = replace(reply, latency_s=time.perf_counter() - started)
            cached = CachedReply(reply=reply, identity=self.identity, at=time.time())
            self._policy.replies.put(key, cached, overwrite=self._policy.is_refreshed(request.arm))
        return reply

    async def _send(self, request: Request) -> Reply:
        if self._policy.only:
            tally = self._policy.tally(request.experiment, request.arm)
            # Recorded per sample and repeat, so that the session can tell how many replies are missing before it fails.
            tally.missing.add((request.sample, request.repeat))
            raise Uncached(f"the reply of {request.arm!r} to sample {request.sample!r:.200} is not in the reply cache")
        return await self.inner.generate(request)


class CacheOnlyBackend:
    """Stands in for an adapter in cache-only mode: it is not opened, and no model is called."""

    simulated = False

    def __init__(self, identity: str) -> None:
        self.identity = identity

    async def generate(self, request: Request) -> Reply:
        raise Uncached(
            f"the reply of {request.arm!r} to sample {request.sample!r:.200} is not in the reply cache, and no model may be called"
        )
