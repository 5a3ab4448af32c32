"""The reply cache: a request that was paid for once is not sent again.

A cached reply keeps its text, tokens, cost and original latency, and is marked `cached`. Errors and lost samples are not
cached; a reply that was truncated or withheld is the model's answer, and is cached.

A key covers everything a reply depends on, without credentials:

the backend's identity   the model: a checkpoint, or a model's name and URL
input, parameters        the request: the prompt and the sampling parameters
sample, repeat, call     the draw: two samples with the same prompt, the repeats of a sample and a prompt sent twice in one
                         sample are independent draws, and must stay so; a later round is named, so that no reply of an
                         earlier one stands in for it
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Protocol

from pytest_crucible.backends.deadlines import note_answer
from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Emit, Event, Reply, Request
from pytest_crucible.records.errors import Uncached
from pytest_crucible.records.serialize import canonical

# Increased when the meaning of keys or stored replies changes, so that older entries are not found.
FORMAT = 1
# Settings and parameters that identify the caller. They never enter a key, not even hashed: hashes can be guessed.
CREDENTIALS = frozenset({"api_key", "authorization", "default_headers", "extra_headers", "headers"})


def reply_key(identity: str, request: Request) -> str | None:
    """Return the SHA-256 of a request, its model and its draw; None if it cannot be written as JSON.

    >>> request = Request(input="2 + 2", sample="a", repeat=0, parameters={"headers": {"Authorization": "a secret"}})
    >>> reply_key("v2", request) == reply_key("v2", Request(input="2 + 2", sample="a", repeat=0)) != reply_key("v1", request)
    True
    """
    parameters = without_credentials(request.parameters)
    try:
        draw = request.repeat if request.draw is None else request.draw
        text = canonical([FORMAT, identity, request.input, parameters, request.sample, draw, request.call])
    except TypeError:
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def settings_key(adapter: Adapter, *circumstances: Any) -> str:
    """Return a key of an adapter's name and settings, and of the `circumstances` that they depend on."""
    parts = [FORMAT, adapter.backend, adapter.name, without_credentials(adapter.options), circumstances]
    # default=repr: settings may hold paths or dates; only their equality matters here.
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=repr).encode()).hexdigest()


def without_credentials(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings without credentials.

    >>> without_credentials({"model": "v2", "Headers": {"X-Key": "a secret"}})
    {'model': 'v2'}
    """
    if all(name not in CREDENTIALS for name in map(str.lower, settings)):
        return settings
    return {name: value for name, value in settings.items() if name.lower() not in CREDENTIALS}


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedReply:
    """A stored reply, the identity of the model that gave it, and when (seconds since 1970)."""

    reply: Reply
    identity: str
    at: float
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAdapter:
    """Identity of an adapter that was opened once: enough to find its replies when it cannot be opened."""

    settings: str
    identity: str
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of its files, by path relative to the project. An adapter with a changed file is another adapter."""


class ReplyCache(Protocol):
    """Stores replies by key, the first of each. Called on event loops: it must not block. An unreadable entry is absent."""

    async def get(self, key: str) -> CachedReply | None:
        """Return the entry of a key, with its reply marked as `cached`."""

    def put(self, key: str, reply: CachedReply, *, overwrite: bool = False) -> None:
        """Store a reply: readable at once, durable within a second. A reply that does not survive storing is skipped."""

    def remember_adapter(self, adapter: KnownAdapter) -> None:
        """Record an adapter at its first `get`: an adapter that is opened but never queried is not recorded."""

    def find_adapter(self, settings: str) -> KnownAdapter | None:
        """Return the adapter with these settings, as it was opened last."""


@dataclass(slots=True)
class Tally:
    requests: int = 0
    hits: int = 0
    oldest: float = math.inf
    """When the oldest cached reply was given; seconds since 1970."""
    missing: set[tuple[str, int]] = field(default_factory=set)
    """Samples and repeats whose reply was not cached, in cache-only mode."""


@dataclass(frozen=True, kw_only=True)
class CachePolicy:
    """The use of the cache by the backends of a session. Its mutable fields are shared by all of them."""

    replies: ReplyCache
    only: bool = False
    """Never call a model: a reply that is not cached is missing."""
    begun: float = 0.0
    """When the session began; seconds since 1970."""
    refresh: bool = False
    """Call all arms again: replies from before the session are not used, and are overwritten."""
    fresh: frozenset[str] = frozenset()
    """Arms to call again although `refresh` is off."""
    in_flight: dict[str, asyncio.Event] = field(default_factory=dict)
    """Requests being answered now, by key: another request with the same key waits for the answer."""
    tallies: defaultdict[tuple[str, str], Tally] = field(default_factory=lambda: defaultdict(Tally))
    """By experiment and arm."""

    def is_refreshed(self, arm: str) -> bool:
        return self.refresh or arm in self.fresh

    def tally(self, experiment: str, arm: str) -> Tally:
        return self.tallies[experiment, arm]


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
            cached = await self._policy.replies.get(key)
            if cached is None or (cached.at < self._policy.begun and self._policy.is_refreshed(request.arm)):
                return await self._send_and_store(key, request, cached)
            return self._count_hit(cached, request)
        finally:
            del in_flight[key]
            done.set()

    def _count_hit(self, cached: CachedReply, request: Request) -> Reply:
        # The model has answered this sample before: what is late now is not its server alone.
        note_answer()
        tally = self._policy.tally(request.experiment, request.arm)
        tally.hits += 1
        tally.oldest = min(tally.oldest, cached.at)
        self._emit(Event.about("cache.hit", request, facts={"kept_at": cached.at}))
        return cached.reply

    async def _send_and_store(self, key: str, request: Request, before: CachedReply | None) -> Reply:
        """Send a request; `before` is the cached reply that the new one takes the place of."""
        started = time.perf_counter()
        reply = await self._send(request)
        # An invalid reply is reported by the experiment.
        if isinstance(reply, Reply):
            if reply.latency_s is None:
                # Measured here, because a hit cannot measure it later.
                reply = replace(reply, latency_s=time.perf_counter() - started)
            cached = CachedReply(reply=reply, identity=self.identity, at=time.time())
            self._policy.replies.put(key, cached, overwrite=self._policy.is_refreshed(request.arm))
            if before is not None and should_repeat(request):
                reply = replace(reply, as_before=_content(reply) == _content(before.reply))
        return reply

    async def _send(self, request: Request) -> Reply:
        if self._policy.only:
            tally = self._policy.tally(request.experiment, request.arm)
            # Recorded per sample and repeat, so that the session can tell how many replies are missing before it fails.
            tally.missing.add((request.sample, request.repeat))
            raise _missing_reply(request)
        return await self.inner.generate(request)


def should_repeat(request: Request) -> bool:
    """Return whether the same reply is expected of an equal request: at temperature 0, or with a seed.

    >>> should_repeat(Request(input="2 + 2", sample="a", repeat=0, parameters={"temperature": 0}))
    True
    """
    # What seed is sent depends on the repeat, for which the key of a later round has another name.
    is_seeded = request.parameters.get("seed") is not None and request.draw is None
    return request.parameters.get("temperature") == 0 or is_seeded


def _content(reply: Reply) -> tuple[str, str, list[Mapping[str, Any]]]:
    # A server gives each tool call an id of its own.
    return reply.text, reply.reasoning, [{**call, "id": None} for call in reply.tool_calls]


class CacheOnlyBackend:
    """Stands in for an adapter in cache-only mode: it is not opened, and no model is called."""

    simulated = False

    def __init__(self, identity: str) -> None:
        self.identity = identity

    async def generate(self, request: Request) -> Reply:
        raise _missing_reply(request, ", and no model may be called")


def _missing_reply(request: Request, why: str = "") -> Uncached:
    return Uncached(f"the reply of {request.arm!r} to sample {request.sample!r:.200} is not in the reply cache{why}")
