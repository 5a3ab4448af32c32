"""A backend for tests: a function answers. Results are marked simulated everywhere."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable

from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import BackendError
from pytest_crucible.records.function_source import sources
from pytest_crucible.records.type_names import describe_type


class ScriptedBackend:
    """Answers with the string or Reply that `script(request)` returns, and raises what it raises.

    Each reply comes after `latency_s`, without blocking, and records how long it took.
    """

    simulated = True

    def __init__(
        self, script: Callable[[Request], str | Reply], *, latency_s: float = 0.0, identity: str | None = None
    ) -> None:
        self.identity = identity or _source_hash(script)
        self._script = script
        self._latency_s = latency_s

    async def generate(self, request: Request) -> Reply:
        started = time.perf_counter()
        if self._latency_s:
            await asyncio.sleep(self._latency_s)
        answer = self._script(request)
        if not isinstance(answer, str | Reply):
            raise BackendError(f"the script returned {describe_type(answer)}: return a string or a Reply")
        return answer if isinstance(answer, Reply) else Reply(text=answer, latency_s=time.perf_counter() - started)


def _source_hash(script: Callable[[Request], str | Reply]) -> str:
    """Return a hash of the script's source and of all that it reads: equal scripts are one checkpoint."""
    return hashlib.sha256("\n".join(sources(script)).encode()).hexdigest()
