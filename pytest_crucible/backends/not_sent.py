"""Ends a test function at the first request that would be sent, so that a run can be estimated from real prompts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.backends.budget.prices import Price
from pytest_crucible.backends.protocol import Backend
from pytest_crucible.backends.wrapper import Wrapper
from pytest_crucible.records import Reply, Request


class NotSent(BaseException):
    """A request was ready, and nothing is sent. No `except Exception` of a test may catch it."""


@dataclass(frozen=True, slots=True)
class UnsentRequest:
    """A request that a run would have sent, and the price of its model; None if that is not known."""

    request: Request
    adapter: str
    price: Price | None


class StopBeforeSending(Wrapper):
    """Takes the place of every wrapper that sends. The reply cache is around it: a cached reply costs no request."""

    def __init__(
        self, inner: Backend, adapter: str, price: Price | None, on_request: Callable[[UnsentRequest], None]
    ) -> None:
        super().__init__(inner)
        self._adapter, self._price, self._on_request = adapter, price, on_request

    async def generate(self, request: Request) -> Reply:
        """Raises NotSent."""
        self._on_request(UnsentRequest(request, self._adapter, self._price))
        raise NotSent
