"""Protocols of backends, the only way to call a model. Wrappers (cache, retry, hedge) are backends themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pytest_crucible.records import Reply, Request


@runtime_checkable
class Backend(Protocol):
    """Answers requests for one adapter.

    `generate` makes one attempt. It raises `Retryable` when a retry may succeed, another `BackendError` when this reply
    cannot be had (the sample is lost) and `Refused` when no reply ever can (the experiment stops). It runs on the sampling
    loop and must not block it.
    """

    identity: str
    """Changes when and only when replies may change: a checkpoint, a file's hash, a model name and URL."""
    simulated: bool
    """True when replies do not come from a model; every verdict reports it."""

    async def generate(self, request: Request) -> Reply: ...


@runtime_checkable
class Remote(Protocol):
    """A backend that calls a server. Backends of one server share its limits, and its model has a price."""

    server: str
    """The base URL and a digest of the key, never the key: two backends of one server and one key share a limit."""
    model: str


def system_prompt(backend: Backend) -> str:
    """Return the `system` prompt that a backend sends before the messages of each request; empty if it has none."""
    # Read for each unit: a runtime-checkable Protocol would take 10 us to look at the backend's attributes.
    return str(getattr(backend, "system", ""))


@runtime_checkable
class Closeable(Protocol):
    """A backend with connections, which is closed on the sampling loop when the session ends."""

    async def close(self) -> None: ...


@runtime_checkable
class Instant(Protocol):
    """A backend that computes its replies faster than they are found in the reply cache: they are not cached."""

    is_instant: bool


@runtime_checkable
class KnowsItsSamples(Protocol):
    """A backend that lists the samples that it can answer."""

    def samples(self) -> frozenset[str]: ...


@runtime_checkable
class ScoresPrompts(Protocol):
    """A backend that returns how probable a text is to its model."""

    async def score_prompt(self, text: str) -> Sequence[float]:
        """Return the natural log-probability of each token of a text but the first, given those before it.

        Raises BackendError for a text that does not fit into the model's context, and where the server returns none.
        """
