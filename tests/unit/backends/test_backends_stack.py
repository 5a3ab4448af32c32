"""The table of wrappers: which apply, and in which order."""

from __future__ import annotations

from memory_replies import MemoryReplies

from pytest_crucible.backends import ScriptedBackend, recorded_rows
from pytest_crucible.backends.cache import CachePolicy
from pytest_crucible.backends.context import BackendContext
from pytest_crucible.backends.protocol import Backend, Wrapper
from pytest_crucible.backends.stack import OuterWrapper, wrap_backend
from pytest_crucible.records import Adapter


class Server:
    """A model on a server."""

    identity, server, model, simulated = "v2", "http://host/v1 4f1c", "v2", False

    async def generate(self, request):
        raise NotImplementedError


def names_of_wrappers(backend: Backend) -> list[str]:
    """Return the names of a backend's wrappers, from the outside in."""
    names = []
    while isinstance(backend, Wrapper):
        names.append(type(backend).__name__)
        backend = backend.inner
    return names


def test_wrappers_are_in_order():
    adapter = Adapter(name="v2", backend="openai", asking={"hedge": {"strategy": "fixed", "delay_s": 1.0}})
    shared = BackendContext(cache=CachePolicy(replies=MemoryReplies()))

    assert names_of_wrappers(wrap_backend(Server(), adapter, shared)) == [
        "Cached",
        "Retried",
        "CircuitBreaker",
        "Limited",
        "Hedged",
        "Metered",
        "Timed",
        "ReplyLimit",
    ]


def test_backend_without_server_is_not_limited():
    backend = wrap_backend(ScriptedBackend(str), Adapter(name="v2", backend="scripted"), BackendContext())

    assert names_of_wrappers(backend) == ["Retried", "CircuitBreaker", "Metered", "Timed", "ReplyLimit"]


def test_recorded_replies_are_not_wrapped():
    backend = recorded_rows([{"sample_id": "a", "text": "4"}], name="v2")

    assert wrap_backend(backend, Adapter(name="v2", backend="recorded"), BackendContext()) is backend


def test_wrappers_of_features_are_outermost():
    class Guard(Wrapper):
        pass

    class Trace(Wrapper):
        pass

    outer = [OuterWrapper(identity=row.__name__, wrap=row, estimate=lambda inner: inner) for row in (Guard, Trace)]
    adapter = Adapter(name="v2", backend="scripted")
    wrapped, other = (
        names_of_wrappers(wrap_backend(ScriptedBackend(str), adapter, BackendContext(), outer=rows))
        for rows in (outer, ())
    )

    assert wrapped == ["Trace", "Guard", *other]
