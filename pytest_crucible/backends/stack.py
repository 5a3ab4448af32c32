"""The wrappers around a backend, in the only order that works.

WRAPPERS lists them from the inside out. The limit of a reply is innermost, so that nothing further out holds more. The
deadline of each request is next, so that it does not count waiting. The counter of requests follows: every request that
passes it is sent. A hedge is inside the limit of the server, because it goes out only when a permit is spare. The circuit
breaker sees each attempt, so that none is used up on a server that restarts; each retry waits for a permit again. The cache
is outermost: a cached reply needs none of the others. What features put around a whole adapter is outside of it, and reads
cached replies, too.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from pytest_crucible.backends.cache import Cached
from pytest_crucible.backends.circuit_breaker import Circuit, CircuitBreaker
from pytest_crucible.backends.context import BackendContext, UnsentRequest
from pytest_crucible.backends.deadlines import Timed, read_timeout
from pytest_crucible.backends.hedging import Hedged, read_hedge
from pytest_crucible.backends.limiting.control import read_limits
from pytest_crucible.backends.limiting.limiter import Limited, Limiter
from pytest_crucible.backends.protocol import (
    Backend,
    Instant,
    KnowsItsSamples,
    Remote,
    ReplyLimit,
    Wrapper,
    read_reply_limit,
)
from pytest_crucible.backends.retried import Retried, read_retries
from pytest_crucible.backends.spending import Metered, Price
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Adapter, Reply, Request
from pytest_crucible.records.errors import SpecError

_Unit = tuple[str, str, str, int]


class NotSent(BaseException):
    """A request was ready, and nothing is sent. No `except Exception` of a test may catch it."""


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


class StopTogether(Wrapper):
    """Lets requests that a test sends at once all be counted; it is around the reply cache.

    In a TaskGroup the first that is stopped cancels the others. Those that the cache still looks up would be missing, and how
    many these are would depend on the time that a thread takes.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._open: defaultdict[_Unit, set[asyncio.Future[None]]] = defaultdict(set)

    async def generate(self, request: Request) -> Reply:
        """Raises NotSent when every request of the same unit is stopped or has its cached reply."""
        unit = (request.experiment, request.arm, request.sample, request.repeat)
        done = asyncio.get_running_loop().create_future()
        self._open[unit].add(done)
        try:
            return await self._answer(request, unit, done)
        except NotSent:
            if others := self._open.get(unit):
                await asyncio.wait(others)
            raise

    async def _answer(self, request: Request, unit: _Unit, done: asyncio.Future[None]) -> Reply:
        try:
            return await self.inner.generate(request)
        finally:
            done.set_result(None)
            self._open[unit].discard(done)
            if not self._open[unit]:
                del self._open[unit]


@dataclass(frozen=True)
class Wrapping:
    """A backend that is being wrapped: the innermost backend, its adapter, and the session's shared state."""

    backend: Backend
    adapter: Adapter
    shared: BackendContext
    is_free: bool = False
    """Tokens cost nothing, unless the adapter sets a price."""

    @property
    def model(self) -> str:
        """The model on a server, whose tokens have a price."""
        return self.backend.model if isinstance(self.backend, Remote) else ""

    @property
    def bases(self) -> Sequence[str]:
        """Further names under which its tokens have a price: those of a checkpoint's base."""
        return tuple(getattr(self.backend, "bases", ()))

    @property
    def server(self) -> str:
        """The key under which backends share a limit and a circuit breaker."""
        return self.backend.server if isinstance(self.backend, Remote) else f"adapter {self.adapter.name}"

    @property
    def circuit(self) -> Circuit:
        """The circuit of the server, which its backends share. Its name is without the digest of the key."""
        is_remote = isinstance(self.backend, Remote)
        name = f"server {self.server.split()[0]}" if is_remote else f"adapter {self.adapter.name!r}"
        return self.shared.circuits.of(self.server, name)

    @property
    def limiter(self) -> Limiter | None:
        """The limiter of the server; a backend that calls no server has a limit only where one is set."""
        is_limited = isinstance(self.backend, Remote) or "limit" in self.adapter.asking
        return self.shared.limiters.of(self.server, read_limits(self.adapter)) if is_limited else None


Wrap = Callable[[Backend, Wrapping], Backend]
"""Puts one wrapper around a backend. Raises SpecError for invalid settings."""


@dataclass(frozen=True)
class OuterWrapper:
    """A wrapper that a feature puts around a whole adapter, also around an ensemble and recorded replies."""

    identity: str
    """Added to the identity of the arm. The keys of cached replies do not have it."""
    wrap: Callable[[Backend], Backend]
    estimate: Callable[[Backend], Backend]
    """Wraps a backend that is only estimated, and calls no model."""


def wrap_outside(backend: Backend, outer: Sequence[OuterWrapper]) -> Backend:
    """Return the backend within the wrappers of features, the first of which is innermost."""
    for wrapper in outer:
        backend = wrapper.wrap(backend)
    return backend


def wrap_backend(
    backend: Backend,
    adapter: Adapter,
    shared: BackendContext,
    *,
    is_free: bool = False,
    outer: Sequence[OuterWrapper] = (),
) -> Backend:
    """Return the backend with the wrappers that apply to its adapter. Raises SpecError for invalid settings."""
    # Replies in a file are neither slow nor limited nor paid for.
    if isinstance(backend, KnowsItsSamples):
        if adapter.asking:
            raise SpecError(
                f"adapter {adapter.name!r} has {min(adapter.asking)!r}, but backend {adapter.backend!r} reads its replies "
                "from a file and sends no requests: remove it"
            )
        return wrap_outside(backend, outer)
    wrapping = Wrapping(backend, adapter, shared, is_free)
    wrapped = backend
    for wrap in WRAPPERS if shared.on_unsent is None else ESTIMATING:
        wrapped = wrap(wrapped, wrapping)
    if shared.on_unsent is None:
        return wrap_outside(wrapped, outer)
    for wrapper in outer:
        wrapped = wrapper.estimate(wrapped)
    return wrapped


def _meter(inner: Backend, wrapping: Wrapping) -> Backend:
    shared = wrapping.shared
    meter = shared.spending.meter(wrapping.adapter, wrapping.model, bases=wrapping.bases, is_free=wrapping.is_free)
    return Metered(inner, shared.emit, meter, starts=shared.starts)


def _hedge(inner: Backend, wrapping: Wrapping) -> Backend:
    adapter, backend, shared = wrapping.adapter, wrapping.backend, wrapping.shared
    hedge = read_hedge(adapter, shared.seed)
    if hedge is None:
        return inner
    if not (isinstance(backend, Remote) or backend.simulated):
        raise SpecError(
            f"adapter {adapter.name!r} has a hedge, but backend {adapter.backend!r} computes on this machine, "
            "one request after another: remove the hedge"
        )
    return Hedged(inner, hedge, wrapping.limiter, shared.emit)


def _limit(inner: Backend, wrapping: Wrapping) -> Backend:
    limiter = wrapping.limiter
    return inner if limiter is None else Limited(inner, limiter, wrapping.shared.emit, reporter=wrapping.backend)


def _retry(inner: Backend, wrapping: Wrapping) -> Backend:
    adapter, circuit = wrapping.adapter, wrapping.circuit
    retries, has_answered = read_retries(adapter), lambda: circuit.has_answered
    return Retried(inner, wrapping.shared.emit, retries=retries, judge=wrapping.limiter, has_answered=has_answered)


def _cache(inner: Backend, wrapping: Wrapping) -> Backend:
    cache = wrapping.shared.cache
    if cache is None or not is_cached(wrapping.backend, wrapping.adapter):
        return inner
    return Cached(inner, cache, wrapping.shared.emit)


def _stop(inner: Backend, wrapping: Wrapping) -> Backend:
    shared = wrapping.shared
    # A function that plays a model costs nothing.
    is_free = wrapping.is_free or wrapping.backend.simulated
    meter = shared.spending.meter(wrapping.adapter, wrapping.model, bases=wrapping.bases, is_free=is_free)
    assert shared.on_unsent is not None
    return StopBeforeSending(inner, wrapping.adapter.name, meter.price, shared.on_unsent)


WRAPPERS: tuple[Wrap, ...] = (
    lambda inner, wrapping: ReplyLimit(inner, read_reply_limit(wrapping.adapter)),
    lambda inner, wrapping: Timed(inner, read_timeout(wrapping.adapter, wrapping.backend)),
    _meter,
    _hedge,
    _limit,
    lambda inner, wrapping: CircuitBreaker(inner, wrapping.circuit, is_remote=isinstance(wrapping.backend, Remote)),
    _retry,
    _cache,
)
"""From the inside out; one that does not apply returns what it is given."""
ESTIMATING: tuple[Wrap, ...] = (_stop, _cache, lambda inner, _: StopTogether(inner))
"""For a run that is only estimated: nothing is sent. Cached replies cost no request."""


def is_cached(backend: Backend, adapter: Adapter) -> bool:
    """Return whether replies of this backend are cached. Raises SpecError for an invalid `cache`."""
    is_wanted = adapter.asking.get("cache", not (backend.simulated or isinstance(backend, Instant)))
    if not isinstance(is_wanted, bool):
        raise SpecError(f"adapter {adapter.name!r} has cache = {is_wanted!r}: write true or false")
    if is_wanted and backend.simulated:
        raise SpecError(f"adapter {adapter.name!r} has cache = true, but its replies come from no model: remove it")
    return is_wanted and not isinstance(backend, KnowsItsSamples)
