"""Everything that a session opened is closed, whatever goes wrong meanwhile."""

from __future__ import annotations

import threading
from dataclasses import fields
from pathlib import Path

import pytest
from experiment_builders import make_resources

from pytest_crucible.backends.limiting.limiter import Limiters
from pytest_crucible.backends.spending import Prices, Spending
from pytest_crucible.records import BUDGET, BudgetSpent, Event, Reply, Request
from pytest_crucible.records.errors import StoreError
from pytest_crucible.session.resources import Resources, budget_lines, emit_budgets


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


def open_resources(pytester: pytest.Pytester, *backends: Server) -> Resources:
    """Resources of which all are in use."""
    resources = make_resources(pytester, cache="auto")
    resources.add_backends(*backends)
    _ = resources.loop, resources.writer, resources.shared
    return resources


def threads_of_ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("crucible")]


def test_a_backend_whose_close_raises_leaves_nothing_open(pytester, monkeypatch):
    closed = []
    monkeypatch.setattr(Limiters, "close", lambda limiters: closed.append(limiters))
    before = threads_of_ours()
    resources = open_resources(pytester, Server(OSError("the connection is gone")))
    store = resources.store

    with pytest.raises(OSError, match="the connection is gone"):
        resources.close()

    assert threads_of_ours() == before
    assert closed == [resources.shared.limiters]
    assert not [link for link in Path("/proc/self/fd").iterdir() if str(link.resolve()) == store.database.path]
    assert not {"loop", "writer", "store"} & set(resources.__dict__)


def test_a_store_that_cannot_be_opened_is_tried_once(pytester):
    (pytester.path / "runs.db").write_text("something else " * 100)
    resources = make_resources(pytester, store="runs.db")
    errors = []

    for _ in range(2):
        with pytest.raises(StoreError) as raised:
            resources.open_store()
        errors.append(raised.value)

    assert errors[0] is errors[1]


def test_all_backends_are_closed_in_their_order_although_one_raises(pytester):
    servers = [Server(), Server(OSError("gone")), Server()]
    resources = open_resources(pytester, *servers)

    with pytest.raises(OSError, match="gone"):
        resources.close()

    assert [server.closed for server in servers] == [1, 1, 1]


def test_closing_again_closes_nothing_twice(pytester):
    server = Server()
    resources = open_resources(pytester, server)
    resources.close()
    resources.close()

    assert server.closed == 1


def test_unused_resources_are_not_opened_to_be_closed(pytester):
    resources = make_resources(pytester, cache="auto")
    resources.close()

    assert not (pytester.path / ".crucible").exists()
    assert "replies" not in resources.__dict__


def test_changes_of_the_session_are_restored_from_the_last_to_the_first(resources):
    restored = []
    for name in ("first", "second"):
        resources.on_close(lambda name=name: restored.append(name))
    resources.close()
    resources.close()

    assert restored == ["second", "first"]


def test_a_restore_that_raises_keeps_no_other_from_running(resources):
    restored = []
    resources.on_close(lambda: restored.append("first"))
    resources.on_close(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        resources.close()

    assert restored == ["first"]


def test_without_a_cache_backends_share_none(resources):
    assert resources.shared.cache is None


@pytest.mark.parametrize(
    ("mode", "only", "refresh"), [("auto", False, False), ("only", True, False), ("refresh", False, True)]
)
def test_the_cache_mode_reaches_the_cache(pytester, mode, only, refresh):
    resources = make_resources(pytester, cache=mode, compare=("v1",), fresh=True)
    cache = resources.shared.cache

    assert cache is not None
    assert (cache.only, cache.refresh, cache.fresh) == (only, refresh, frozenset({"v1"}))
    resources.close()


# -- budgets --------------------------------------------------------------------------------------------------------


def test_without_a_budget_there_is_nothing_to_report(resources):
    events: list[Event] = []

    emit_budgets(events.append, resources.shared.spending, "test_a.py::test_a")

    assert resources.shared.spending.run is None
    assert events == []


@pytest.mark.parametrize(
    ("own", "budgets"), [((), ["100 requests"]), (("10 requests",), ["100 requests", "10 requests"])]
)
def test_the_budgets_of_the_run_and_of_an_experiment_are_emitted_apart(own, budgets):
    events: list[Event] = []
    spending = Spending("100 requests", Prices({}))
    for budget in own:
        spending.allow("test_a.py::test_a", budget, ["v2"])

    emit_budgets(events.append, spending, "test_a.py::test_a")

    assert [(event.name, event.experiment, event.facts["budget"]) for event in events] == list(
        zip((BUDGET, BUDGET), ("", "test_a.py::test_a"), budgets, strict=False)
    )


def test_the_budget_of_the_run_comes_last():
    zero = dict.fromkeys((field.name for field in fields(BudgetSpent)), 0)
    spent = [
        BudgetSpent(**{**zero, "experiment": experiment, "budget": "5 USD", "said": sentence})
        for experiment, sentence in (("", "3 of 5 USD"), ("test_a", "1 of 2 USD"))
    ]

    assert budget_lines(spent) == ["budget   test_a: 1 of 2 USD", "budget   3 of 5 USD"]


def test_one_process_has_no_shared_ledger(pytester, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    resources = make_resources(pytester, budget=("5 USD",))
    _ = resources.shared
    resources.close()

    assert list(tmp_path.glob("pytest-crucible-*")) == []
