"""What every wrapper of a backend has in common: it answers as the one inside it, and is known by the same identity."""

from __future__ import annotations

from pytest_crucible.backends.protocol import Backend, Closing
from pytest_crucible.records import Reply, Request


class Wrapper:
    """A Backend around another one. A wrapper changes when and how often is asked, never what is answered."""

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.simulated = inner.simulated

    async def generate(self, request: Request) -> Reply:
        return await self.inner.generate(request)

    async def close(self) -> None:
        """Close what is inside, if it holds anything."""
        if isinstance(self.inner, Closing):
            await self.inner.close()
