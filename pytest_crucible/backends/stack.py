"""A backend with the wrappers that its adapter asks for, in the one order in which they make sense.

From the outside: what is known already (cache), asking again (retries), waiting for a server that is down (breaker), waiting
for a turn (limit), asking twice (hedge), what counts each request on the wire (metered), and the deadline of each (timed). The
breaker sees each attempt, so that none is used up on a server that restarts; a retry waits for its turn anew; a hedge
goes out only when there is room for it; and whatever is counted was sent.
"""

from __future__ import annotations

from pytest_crucible.backends.breaker import Breaker
from pytest_crucible.backends.cached import Cached
from pytest_crucible.backends.hedging.hedged import Hedged
from pytest_crucible.backends.hedging.settings import hedge_of
from pytest_crucible.backends.limiting.limited import Limited
from pytest_crucible.backends.limiting.limits import limits_of
from pytest_crucible.backends.metered import Metered
from pytest_crucible.backends.protocol import Backend, Listed, Remote
from pytest_crucible.backends.retried import Retried, retries_of
from pytest_crucible.backends.sharing import Shared
from pytest_crucible.backends.timed import Timed, timeout_of
from pytest_crucible.errors import SpecError
from pytest_crucible.records import Adapter


def stacked(backend: Backend, adapter: Adapter, shared: Shared) -> Backend:
    """The backend as a session asks it. Raises SpecError for settings that cannot be meant."""
    if isinstance(backend, Listed):  # what is written down is neither slow nor limited nor paid for
        _refuse_settings(adapter)
        return backend
    till = shared.spending.till(adapter, backend.model if isinstance(backend, Remote) else "")
    metered = Metered(Timed(backend, timeout_of(adapter, backend)), shared.emit, till, starts=shared.starts)
    limited = _limited(_hedged(metered, backend, adapter, shared), backend, adapter, shared)
    broken = Breaker(limited, shared.circuits.of(_server(backend, adapter), _name(backend, adapter)))
    retried = Retried(broken, shared.emit, retries=retries_of(adapter))
    if shared.cache is None or not is_cached(backend, adapter):
        return retried
    return Cached(retried, shared.cache, shared.emit)


def _hedged(metered: Backend, backend: Backend, adapter: Adapter, shared: Shared) -> Backend:
    hedge = hedge_of(adapter, shared.seed)
    if hedge is None:
        return metered
    if not (isinstance(backend, Remote) or backend.simulated):
        raise SpecError(
            f"adapter {adapter.name!r} has a hedge, but backend {adapter.backend!r} has nothing to send a second request to: "
            "it answers one after another, on this machine"
        )
    limited = isinstance(backend, Remote) or "limit" in adapter.asking
    spares = shared.limiters.of(_server(backend, adapter), limits_of(adapter)) if limited else None
    return Hedged(metered, hedge, spares, shared.emit)


def _limited(inner: Backend, backend: Backend, adapter: Adapter, shared: Shared) -> Backend:
    """What asks no server has a limit where one is set."""
    limits = limits_of(adapter)
    if not (isinstance(backend, Remote) or "limit" in adapter.asking):
        return inner
    return Limited(inner, shared.limiters.of(_server(backend, adapter), limits), shared.emit, seen=backend)


def _server(backend: Backend, adapter: Adapter) -> str:
    """Whom those share a limit with that ask it."""
    return backend.server if isinstance(backend, Remote) else f"adapter {adapter.name}"


def _name(backend: Backend, adapter: Adapter) -> str:
    """What sentences call it: without the digest of the key."""
    return f"server {backend.server.split()[0]}" if isinstance(backend, Remote) else f"adapter {adapter.name!r}"


def is_cached(backend: Backend, adapter: Adapter) -> bool:
    """Whether replies of this backend are worth keeping. Raises SpecError for a setting that cannot be meant."""
    wanted = adapter.asking.get("cache", not backend.simulated)
    if not isinstance(wanted, bool):
        raise SpecError(f"adapter {adapter.name!r} has cache = {wanted!r}: write true or false")
    if wanted and backend.simulated:
        raise SpecError(
            f"adapter {adapter.name!r} has cache = true, but no model stands behind its answers: leave it out"
        )
    return wanted and not isinstance(backend, Listed)


def _refuse_settings(adapter: Adapter) -> None:
    if adapter.asking:
        raise SpecError(
            f"adapter {adapter.name!r} has {min(adapter.asking)!r}, but backend {adapter.backend!r} reads its answers "
            "from a file: nothing is asked of a server"
        )
