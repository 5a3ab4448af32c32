"""The deadline of one request: a server that does not answer within it has failed, not the model."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from pytest_crucible.backends.patience import give_back
from pytest_crucible.backends.protocol import Backend, Remote
from pytest_crucible.backends.time_limits import TimeLimit
from pytest_crucible.backends.wrapping import Wrapper
from pytest_crucible.errors import Retryable, SpecError
from pytest_crucible.records import Adapter, Reply, Request

DEADLINE_S = 120.0
"""For backends that ask a server. Others have none, unless the adapter sets one."""


class Timed(Wrapper):
    """Around the backend itself. The time of a request that fails is given back to its sample."""

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
            give_back(asyncio.get_running_loop().time() - started)
            if deadline.expired() and not isinstance(error, Retryable):
                raise Retryable(f"no answer within {self._timeout_s:g} s", kind="timeout") from None
            raise


def timeout_of(adapter: Adapter, backend: Backend) -> float | None:
    """`timeout_s` of an adapter, 0 for none. Raises SpecError for what is no time."""
    default = DEADLINE_S if isinstance(backend, Remote) else 0.0
    given: Any = adapter.asking.get("timeout_s", default)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < math.inf:
        raise SpecError(
            f"adapter {adapter.name!r} has timeout_s = {given!r}: write the seconds that one request may take, or 0 for any"
        )
    return given or None
