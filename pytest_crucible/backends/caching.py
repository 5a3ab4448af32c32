"""The reply cache as backends see it: where replies are kept, which of them may be used, and how many were."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pytest_crucible.records import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A reply that was paid for, by whom it was given and when, in seconds since 1970."""

    reply: Reply
    identity: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAdapter:
    """What an adapter turned out to be when it was opened: enough to find its replies where it cannot be."""

    settings: str
    """What it is recognised by."""
    identity: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that it is made of, below the project's directory, with their SHA-256: others make another adapter."""


class ReplyCache(Protocol):
    """Keeps replies by key, for all sessions. Of several that are kept under one key the first is the one.

    It is used on event loops and must not block them. What it holds and cannot read is not there.
    """

    async def get(self, key: str) -> Kept | None:
        """What is kept under a key, its reply marked as `cached`."""

    def put(self, key: str, kept: Kept, *, overwrite: bool = False) -> None:
        """Keep a reply, found at once and durable within a second. One that would come back as another is not kept."""

    def introduce(self, adapter: KnownAdapter) -> None:
        """Remember an adapter from the first `get` on: of one that is opened and asked nothing, nothing is known."""

    def recognise(self, settings: str) -> KnownAdapter | None:
        """The adapter of these settings, as it last was."""


@dataclass(slots=True)
class Tally:
    """What one arm has asked for in one experiment, and how much of it was there."""

    requests: int = 0
    hits: int = 0
    oldest: float = math.inf
    """When the oldest of them was given; seconds since 1970."""
    missing: set[tuple[str, int]] = field(default_factory=set)
    """Samples and repeats whose reply was not there, where nobody may be asked."""


@dataclass(frozen=True, kw_only=True)
class Caching:
    """How the backends of one session use the cache. What is not frozen is shared by all of them."""

    replies: ReplyCache
    only: bool = False
    """Nobody is asked: what is not there is missing."""
    begun: float = 0.0
    """When the session began; seconds since 1970."""
    refresh: bool = False
    """All arms are asked anew: what was kept before the session is not used, and is overwritten."""
    fresh: frozenset[str] = frozenset()
    """Arms of which the same holds, though not of all."""
    asked: dict[str, asyncio.Event] = field(default_factory=dict)
    """Keys that somebody is finding a reply to: who wants the same waits, and takes that."""
    tallies: dict[tuple[str, str], Tally] = field(default_factory=dict)
    """By experiment and arm."""

    def is_anew(self, arm: str) -> bool:
        return self.refresh or arm in self.fresh

    def tally(self, experiment: str, arm: str) -> Tally:
        return self.tallies.setdefault((experiment, arm), Tally())
