"""The wrappers around a backend, in the only order that works.

WRAPPERS lists them from the inside out. The limit of a reply is innermost, so that nothing further out holds more. The
deadline of each request is next, so that it does not count waiting. The counter of requests follows: every request that
passes it is sent. A hedge is inside the limit of the server, because it goes out only when a permit is spare. The circuit
breaker sees each attempt, so that none is used up on a server that restarts; each retry waits for a permit again. The cache
is outermost: a cached reply needs none of the others. What features put around a whole adapter is outside of it, and reads
cached replies, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_crucible.backends.cache import Cached
from pytest_crucible.backends.circuit_breaker import Circuit, CircuitBreaker
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.deadlines import Timed, read_timeout
from pytest_crucible.backends.hedging import Hedged, read_hedge
from pytest_crucible.backends.limiting.control import read_limits
from pytest_crucible.backends.limiting.limiters import Limited
from pytest_crucible.backends.not_sent import StopBeforeSending, StopTogether
from pytest_crucible.backends.protocol import Backend, Instant, KnowsItsSamples, Remote
from pytest_crucible.backends.replies import ReplyLimit, read_reply_limit
from pytest_crucible.backends.retried import Retried, read_retries
from pytest_crucible.backends.spending import Metered
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError


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
    def server(self) -> str:
        """The key under which backends share a limit and a circuit breaker."""
        return self.backend.server if isinstance(self.backend, Remote) else f"adapter {self.adapter.name}"

    @property
    def server_name(self) -> str:
        """The server's name in messages, without the digest of the key."""
        is_remote = isinstance(self.backend, Remote)
        return f"server {self.server.split()[0]}" if is_remote else f"adapter {self.adapter.name!r}"

    @property
    def circuit(self) -> Circuit:
        """The circuit of the server, which its backends share."""
        return self.shared.circuits.of(self.server, self.server_name)

    @property
    def is_limited(self) -> bool:
        """A backend that calls no server has a limit only where one is set."""
        return isinstance(self.backend, Remote) or "limit" in self.adapter.asking


@dataclass(frozen=True)
class WrapperRow:
    """One wrapper. Both functions raise SpecError for invalid settings."""

    applies: Callable[[Wrapping], bool]
    wrap: Callable[[Backend, Wrapping], Backend]


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
        _refuse_settings(adapter)
        return wrap_outside(backend, outer)
    wrapping = Wrapping(backend, adapter, shared, is_free)
    wrapped = backend
    for row in WRAPPERS if shared.on_unsent is None else ESTIMATING:
        if row.applies(wrapping):
            wrapped = row.wrap(wrapped, wrapping)
    if shared.on_unsent is None:
        return wrap_outside(wrapped, outer)
    for wrapper in outer:
        wrapped = wrapper.estimate(wrapped)
    return wrapped


def _always(wrapping: Wrapping) -> bool:
    return True


def _cut(inner: Backend, wrapping: Wrapping) -> Backend:
    return ReplyLimit(inner, read_reply_limit(wrapping.adapter))


def _time(inner: Backend, wrapping: Wrapping) -> Backend:
    return Timed(inner, read_timeout(wrapping.adapter, wrapping.backend))


def _meter(inner: Backend, wrapping: Wrapping) -> Backend:
    shared = wrapping.shared
    meter = shared.spending.meter(wrapping.adapter, wrapping.model, is_free=wrapping.is_free)
    return Metered(inner, shared.emit, meter, starts=shared.starts)


def _has_hedge(wrapping: Wrapping) -> bool:
    adapter, backend = wrapping.adapter, wrapping.backend
    if read_hedge(adapter, wrapping.shared.seed) is None:
        return False
    if not (isinstance(backend, Remote) or backend.simulated):
        raise SpecError(
            f"adapter {adapter.name!r} has a hedge, but backend {adapter.backend!r} computes on this machine, "
            "one request after another: remove the hedge"
        )
    return True


def _hedge(inner: Backend, wrapping: Wrapping) -> Backend:
    shared, hedge = wrapping.shared, read_hedge(wrapping.adapter, wrapping.shared.seed)
    spares = shared.limiters.of(wrapping.server, read_limits(wrapping.adapter)) if wrapping.is_limited else None
    return inner if hedge is None else Hedged(inner, hedge, spares, shared.emit)


def _limit(inner: Backend, wrapping: Wrapping) -> Backend:
    shared = wrapping.shared
    limiter = shared.limiters.of(wrapping.server, read_limits(wrapping.adapter))
    return Limited(inner, limiter, shared.emit, reporter=wrapping.backend)


def _break(inner: Backend, wrapping: Wrapping) -> Backend:
    return CircuitBreaker(inner, wrapping.circuit, is_remote=isinstance(wrapping.backend, Remote))


def _retry(inner: Backend, wrapping: Wrapping) -> Backend:
    shared, adapter, circuit = wrapping.shared, wrapping.adapter, wrapping.circuit
    judge = shared.limiters.of(wrapping.server, read_limits(adapter)) if wrapping.is_limited else None
    return Retried(
        inner, shared.emit, retries=read_retries(adapter), judge=judge, has_answered=lambda: circuit.has_answered
    )


def _cache(inner: Backend, wrapping: Wrapping) -> Backend:
    cache = wrapping.shared.cache
    return inner if cache is None else Cached(inner, cache, wrapping.shared.emit)


def _stop(inner: Backend, wrapping: Wrapping) -> Backend:
    shared = wrapping.shared
    # A function that plays a model costs nothing.
    is_free = wrapping.is_free or wrapping.backend.simulated
    price = shared.spending.meter(wrapping.adapter, wrapping.model, is_free=is_free).price
    assert shared.on_unsent is not None
    return StopBeforeSending(inner, wrapping.adapter.name, price, shared.on_unsent)


_CACHING = WrapperRow(
    lambda wrapping: wrapping.shared.cache is not None and is_cached(wrapping.backend, wrapping.adapter), _cache
)
WRAPPERS = (
    WrapperRow(_always, _cut),
    WrapperRow(_always, _time),
    WrapperRow(_always, _meter),
    WrapperRow(_has_hedge, _hedge),
    WrapperRow(lambda wrapping: wrapping.is_limited, _limit),
    WrapperRow(_always, _break),
    WrapperRow(_always, _retry),
    _CACHING,
)
"""From the inside out."""


ESTIMATING = (
    WrapperRow(_always, _stop),
    _CACHING,
    WrapperRow(_always, lambda inner, _: StopTogether(inner)),
)
"""For a run that is only estimated: nothing is sent. Cached replies cost no request."""


def is_cached(backend: Backend, adapter: Adapter) -> bool:
    """Return whether replies of this backend are cached. Raises SpecError for an invalid `cache`."""
    is_wanted = adapter.asking.get("cache", not (backend.simulated or isinstance(backend, Instant)))
    if not isinstance(is_wanted, bool):
        raise SpecError(f"adapter {adapter.name!r} has cache = {is_wanted!r}: write true or false")
    if is_wanted and backend.simulated:
        raise SpecError(f"adapter {adapter.name!r} has cache = true, but its replies come from no model: remove it")
    return is_wanted and not isinstance(backend, KnowsItsSamples)


def _refuse_settings(adapter: Adapter) -> None:
    if adapter.asking:
        raise SpecError(
            f"adapter {adapter.name!r} has {min(adapter.asking)!r}, but backend {adapter.backend!r} reads its replies "
            "from a file and sends no requests: remove it"
        )
