"""A backend whose replies are kept: what was paid for once is not asked again.

A reply from the cache is what it was: text, tokens, cost and the time that it took then, and it says that it is `cached`.
Errors are not kept, nor are lost samples; a reply that was cut at its length or withheld is an answer, and is.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from pytest_crucible.backends.cache_keys import reply_key
from pytest_crucible.backends.caching import Caching, Kept
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.errors import Uncached
from pytest_crucible.records import Emit, Event, Reply, Request


class Cached(Wrapper):
    """The outermost wrapper: a reply that is there costs neither a turn nor a request."""

    def __init__(self, inner: Backend, caching: Caching, emit: Emit) -> None:
        super().__init__(inner)
        self._caching = caching
        self._emit = emit

    async def generate(self, request: Request) -> Reply:
        """Raises Uncached where nobody may be asked, and otherwise what the backend raises."""
        self._caching.tally(request.experiment, request.arm).requests += 1
        key = reply_key(self.identity, request)
        if key is None:
            return await self._ask(request)
        asked = self._caching.asked
        while (elsewhere := asked.get(key)) is not None:
            await elsewhere.wait()
        asked[key] = done = asyncio.Event()
        try:
            return await self._kept(key, request) or await self._ask_and_keep(key, request)
        finally:
            del asked[key]
            done.set()

    async def _kept(self, key: str, request: Request) -> Reply | None:
        kept = await self._caching.replies.get(key)
        if kept is None or (kept.at < self._caching.begun and self._caching.is_anew(request.arm)):
            return None
        tally = self._caching.tally(request.experiment, request.arm)
        tally.hits += 1
        tally.oldest = min(tally.oldest, kept.at)
        self._emit(Event.about("cache.hit", request, facts={"kept_at": kept.at}))
        return kept.reply

    async def _ask_and_keep(self, key: str, request: Request) -> Reply:
        started = time.perf_counter()
        reply = await self._ask(request)
        if isinstance(reply, Reply):  # what is none is told by whoever asked
            if reply.latency_s is None:
                reply = replace(reply, latency_s=time.perf_counter() - started)  # later it could not be measured
            kept = Kept(reply=reply, identity=self.identity, at=time.time())
            self._caching.replies.put(key, kept, overwrite=self._caching.is_anew(request.arm))
        return reply

    async def _ask(self, request: Request) -> Reply:
        if self._caching.only:
            tally = self._caching.tally(request.experiment, request.arm)
            tally.missing.add((request.sample, request.epoch))
            raise Uncached(f"the reply of {request.arm!r} to sample {request.sample!r} is not in the reply cache")
        return await self.inner.generate(request)


class Unopened:
    """Stands for an adapter of which only kept replies are wanted: nothing of it is opened, and nobody is asked."""

    simulated = False

    def __init__(self, identity: str) -> None:
        self.identity = identity

    async def generate(self, request: Request) -> Reply:
        raise Uncached(f"the reply of {request.arm!r} to sample {request.sample!r} is not kept, and nobody is asked")
