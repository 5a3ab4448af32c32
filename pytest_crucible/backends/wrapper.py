"""The base class of wrappers around backends, which have the identity of the backend inside."""

from __future__ import annotations

from pytest_crucible.backends.protocol import Backend, Closeable, system_prompt
from pytest_crucible.records import Reply, Request


class Wrapper:
    """A Backend around another one. A wrapper changes when and how often requests are sent, never the replies.

    The exception is the reply limit, which cuts a reply and changes the identity.
    """

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.simulated = inner.simulated
        self.system = system_prompt(inner)

    async def generate(self, request: Request) -> Reply:
        return await self.inner.generate(request)

    async def close(self) -> None:
        """Close the backend inside, if it has connections."""
        if isinstance(self.inner, Closeable):
            await self.inner.close()


def find_innermost(backend: Backend) -> Backend:
    """Return the backend inside all wrappers."""
    while isinstance(backend, Wrapper):
        backend = backend.inner
    return backend
