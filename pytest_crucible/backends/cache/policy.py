"""The reply cache as backends use it: the store's interface, the policy of a session, and counts of hits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pytest_crucible.records import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedReply:
    """A stored reply, the identity of the model that gave it, and when (seconds since 1970)."""

    reply: Reply
    identity: str
    at: float
    run: str = ""
    """The run that paid; empty if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAdapter:
    """Identity of an adapter that was opened once: enough to find its replies when it cannot be opened."""

    settings: str
    """The key of its settings, see `settings_key`."""
    identity: str
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of its files, by path relative to the project. An adapter with a changed file is another adapter."""


class ReplyCache(Protocol):
    """Stores replies by key, for all sessions. If several are stored under one key, the first counts.

    It is called on event loops and must not block them. An entry that cannot be read counts as absent.
    """

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
    """Requests, hits and misses of one arm in one experiment."""

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
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    """By experiment and arm."""

    def is_refreshed(self, arm: str) -> bool:
        return self.refresh or arm in self.fresh

    def tally(self, experiment: str, arm: str) -> Tally:
        return self.tallies.setdefault((experiment, arm), Tally())
