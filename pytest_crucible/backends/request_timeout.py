"""The deadline of one request. A server that exceeds it has failed; the model has not."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from pytest_crucible.backends.protocol import Backend, Remote
from pytest_crucible.backends.sample_clock import return_time
from pytest_crucible.backends.timers import TimeLimit
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import Retryable, SpecError

# Default for backends that query a server. Others have no deadline unless the adapter sets one.
DEADLINE_S = 120.0


class Timed(Wrapper):
    """The wrapper next to the backend. The time of a failed request is credited back to the sample's clock."""

    def __init__(self, inner: Backend, timeout_s: float | None) -> None:
        super().__init__(inner)
        self._timeout_s = timeout_s

    async def generate(self, request: Request) -> Reply:
        started = asyncio.get_running_loop().time()
        deadline = TimeLimit(self._timeout_s)
        try:
            async with deadline:
                return await self.inner.generate(request)
        except (Retryable, TimeoutError) as error:
            return_time(asyncio.get_running_loop().time() - started)
            # A Retryable that arrives together with the deadline explains more than the deadline.
            if deadline.expired() and not isinstance(error, Retryable):
                raise Retryable(f"no answer within {self._timeout_s:g} s", kind="timeout") from None
            raise


def read_timeout(adapter: Adapter, backend: Backend) -> float | None:
    """Read `timeout_s` of an adapter; None for no deadline. Raises SpecError."""
    default = DEADLINE_S if isinstance(backend, Remote) else 0.0
    timeout_s: Any = adapter.asking.get("timeout_s", default)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s < math.inf:
        raise SpecError(
            f"adapter {adapter.name!r} has timeout_s = {timeout_s!r}: "
            "expected the seconds that one request may take, or 0 for no limit"
        )
    return timeout_s or None
