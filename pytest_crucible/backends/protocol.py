"""The one seam to models: whatever answers a request is a Backend. Wrappers (cache, retry, hedge) are Backends themselves."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pytest_crucible.records import Reply, Request


@runtime_checkable
class Backend(Protocol):
    """Answers requests for one adapter.

    `generate` makes one attempt. It raises `Retryable` when asking again may help, another `BackendError` when this answer
    cannot be had (the sample is lost) and `Refused` when none ever will (the experiment stops). It runs on the sampling
    loop and must not block it.
    """

    identity: str
    """Changes when and only when the answers may: a checkpoint, a file's hash, a model name and URL."""
    simulated: bool
    """True when no model stands behind the answers; every verdict says so."""

    async def generate(self, request: Request) -> Reply: ...


@runtime_checkable
class Remote(Protocol):
    """A backend that asks a server: what shares the server shares its limits, and its model has a price."""

    server: str
    """The base URL and a digest of the key, never the key: two backends of one server and one key share a limit."""
    model: str


@runtime_checkable
class Closing(Protocol):
    """A backend that holds connections; it is closed on the sampling loop when the session ends."""

    async def close(self) -> None: ...


@runtime_checkable
class Listed(Protocol):
    """A backend that knows beforehand which samples it can answer."""

    def samples(self) -> frozenset[str]: ...
