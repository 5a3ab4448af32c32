"""A backend for tests: a function answers. Its results are marked simulated, everywhere."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

from pytest_crucible.errors import BackendError
from pytest_crucible.records import Reply, Request
from pytest_crucible.sources import sources


class ScriptedBackend:
    """Answers with what `script(request)` returns: a string or a Reply. What it raises, the backend raises.

    `latency_s` is waited, without blocking, before each answer.
    """

    simulated = True

    def __init__(
        self, script: Callable[[Request], str | Reply], *, latency_s: float = 0.0, identity: str | None = None
    ) -> None:
        self.identity = identity or _source_hash(script)
        self._script = script
        self._latency_s = latency_s

    async def generate(self, request: Request) -> Reply:
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        answer = self._script(request)
        if not isinstance(answer, str | Reply):
            raise BackendError(f"the script answered a {type(answer).__name__}: return a str or a Reply")
        return answer if isinstance(answer, Reply) else Reply(text=answer)


def _source_hash(script: Callable[[Request], str | Reply]) -> str:
    """Two scripts that say the same, and read the same, are one checkpoint, unless an identity says otherwise."""
    return hashlib.sha256("\n".join(sources(script)).encode()).hexdigest()
