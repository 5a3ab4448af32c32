"""Everything that a session opened is closed, whatever goes wrong meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import StoreError
from pytest_crucible.session.resources import Resources


class Server:
    """A backend whose `close` can fail."""

    simulated = True
    identity = "server"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = 0

    async def generate(self, request: Request) -> Reply:
        return Reply(text="")

    async def close(self) -> None:
        self.closed += 1
        if self.error is not None:
            raise self.error


class WatchedLimiters(Limiters):
    closed = False

    def close(self) -> None:
        super().close()
        self.closed = True


def open_resources(tmp_path: Path, *backends: Server) -> tuple[Resources, WatchedLimiters]:
    """Resources of which all are in use."""
    limiters = WatchedLimiters()
    resources = Resources(str(tmp_path / "crucible.db"), cache="auto", limiters=lambda: limiters)
    resources.add_backends(*backends)
    _ = resources.loop, resources.writer, resources.shared
    return resources, limiters


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("crucible")]


def test_a_backend_whose_close_raises_leaves_nothing_open(tmp_path):
    before = threads_of_ours()
    resources, limiters = open_resources(tmp_path, Server(OSError("the connection is gone")))
    store = resources.store

    with pytest.raises(OSError, match="the connection is gone"):
        resources.close()

    assert threads_of_ours() == before
    assert limiters.closed
    assert store.engine.pool.checkedout() == 0
    assert not {"loop", "writer", "store"} & set(resources.__dict__)


def test_a_store_that_cannot_be_opened_is_tried_once(tmp_path):
    (tmp_path / "crucible.db").write_text("something else " * 100)
    resources = Resources(str(tmp_path / "crucible.db"), cache="auto")
    errors = []

    for _ in range(2):
        with pytest.raises(StoreError) as raised:
            resources.open_store()
        errors.append(raised.value)

    assert errors[0] is errors[1]


def test_all_backends_are_closed_in_their_order_although_one_raises(tmp_path):
    servers = [Server(), Server(OSError("gone")), Server()]
    resources, _ = open_resources(tmp_path, *servers)

    with pytest.raises(OSError, match="gone"):
        resources.close()

    assert [server.closed for server in servers] == [1, 1, 1]


def test_closing_again_closes_nothing_twice(tmp_path):
    server = Server()
    resources, _ = open_resources(tmp_path, server)
    resources.close()
    resources.close()

    assert server.closed == 1


def test_what_was_never_used_is_not_opened_to_be_closed(tmp_path):
    resources = Resources(str(tmp_path / "crucible.db"), cache="auto")
    resources.close()

    assert not (tmp_path / "crucible.db").exists()
    assert "replies" not in resources.__dict__


def test_what_the_session_changed_is_restored_from_the_last_change_to_the_first(tmp_path):
    restored = []
    resources = Resources(str(tmp_path / "crucible.db"), cache="off")
    for name in ("first", "second"):
        resources.on_close(lambda name=name: restored.append(name))
    resources.close()
    resources.close()

    assert restored == ["second", "first"]


def test_a_restore_that_raises_keeps_no_other_from_running(tmp_path):
    restored = []
    resources = Resources(str(tmp_path / "crucible.db"), cache="off")
    resources.on_close(lambda: restored.append("first"))
    resources.on_close(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        resources.close()

    assert restored == ["first"]


def test_without_a_cache_backends_share_none(tmp_path):
    resources = Resources(str(tmp_path / "crucible.db"), cache="off")

    assert resources.shared.cache is None
    resources.close()


@pytest.mark.parametrize(
    ("mode", "only", "refresh"), [("auto", False, False), ("only", True, False), ("refresh", False, True)]
)
def test_the_cache_mode_reaches_the_cache(tmp_path, mode, only, refresh):
    resources = Resources(str(tmp_path / "crucible.db"), cache=mode, fresh=["v1"])
    cache = resources.shared.cache

    assert cache is not None
    assert (cache.only, cache.refresh, cache.fresh) == (only, refresh, frozenset({"v1"}))
    resources.close()
