"""The limits and budgets that the workers of a run on Ray share: a named actor on the driver's node leases them.

The actors belong to the process that first calls `share_by_workers`, the driver, and end with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from typing import Any

from pytest_crucible.backends.budget import SpendLedger
from pytest_crucible.backends.limiting.control import Control, LimiterState
from pytest_crucible.features.scale.budget_leases import BudgetLeases, SpendAnswer, SpendReport
from pytest_crucible.features.scale.limit_leases import LimitLeases, LimitReport, Share
from pytest_crucible.features.scale.shared_replies import RemoteRows, ReplyDesk, answer_queries
from pytest_crucible.features.scale.worker_leases import LeaseClient, LeasedLedger, LeasedState, Part
from pytest_crucible.session.resources import SharedByWorkers
from pytest_crucible.store.replies import ReplyRows

# An exchange that takes longer has failed: the reports are sent again.
PATIENCE_S = 5.0


def share_by_workers(run: str, workers: int, rows: ReplyRows | None = None) -> SharedByWorkers:
    """Return what the workers of a run on the connected cluster share.

    The driver calls it first, with the cached replies of its run store, and opens the actors; workers find them by the run.
    """
    import ray

    shares, name = _shares_of(run), f"crucible-{run}-replies"
    if rows is None:
        remote: RemoteRows | None = RemoteRows(ray.get_actor(name))
    else:
        # Kept: an actor ends with the last reference to it.
        remote, shares.reply_desk = None, _find_actor(name, ReplyDesk)
        answer_queries(shares.reply_desk, rows)
    node: str = ray.util.get_node_ip_address()
    return SharedByWorkers(workers, shares.open_limiter_state, shares.open_ledger, remote, node)


def flush_reports(run: str) -> None:
    """Report what this worker has sent and spent, so that the driver's sums are those of finished blocks."""
    _shares_of(run).client.flush()


def worker_name(run: str) -> str:
    """Return the name under which this process holds leases."""
    return _shares_of(run).worker


def forget_worker(run: str, worker: str) -> None:
    """Return the shares of a worker that has died, without waiting until its leases end."""
    import ray

    ray.get(_shares_of(run).desk.forget.remote(worker))


def shared_actors(run: str) -> list[Any]:
    """Return the actors of a run, which the driver has opened."""
    shares = _shares_of(run)
    return [shares.desk, shares.reply_desk]


def close_shared(run: str) -> None:
    """End the actors of a run. Called by the driver that has opened them."""
    import ray

    for actor in shared_actors(run):
        ray.kill(actor)
    _shares_of.cache_clear()


@cache
def _shares_of(run: str) -> _Shares:
    return _Shares(f"crucible-{run}-limits")


class _Shares:
    """This process's leases, and the actor that gives them."""

    def __init__(self, actor: str) -> None:
        self.worker = secrets.token_hex(8)
        self.desk, self.reply_desk = _find_actor(actor, LeaseDesk), None
        self.client = LeaseClient(self._exchange, self._wait_for_news)

    def open_limiter_state(self, server: str, control: Control) -> LimiterState:
        name = f"limits of {server}"
        state = LeasedState(control, self.client.wake, lambda: self.client.remove(name))
        self._add(name, state)
        return state

    def open_ledger(self, experiment: str) -> SpendLedger:
        name = f"budget of {experiment}"
        ledger = LeasedLedger(self.client.wake, lambda: self.client.remove(name))
        self._add(name, ledger)
        return ledger

    def _add(self, name: str, part: Part) -> None:
        self.client.add(name, part)

    def _exchange(self, reports: Mapping[str, Any]) -> Mapping[str, Any]:
        import ray

        answers: Mapping[str, Any] = ray.get(self.desk.exchange.remote(self.worker, reports), timeout=PATIENCE_S)
        return answers

    def _wait_for_news(self, version: int) -> int:
        import ray

        number: int = ray.get(self.desk.wait_for_news.remote(version))
        return number


def _find_actor(name: str, kind: type) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    try:
        return ray.get_actor(name)
    except ValueError:
        # It waits for calls, and takes no place of a worker.
        options: dict[str, Any] = {"name": name, "num_cpus": 0, "get_if_exists": True}
        # A driver outside the cluster has no node there, and its run ends with the head.
        if ray.util.client.ray.is_connected():
            options["resources"] = {"node:__internal_head__": 0.001}
        else:
            here = ray.get_runtime_context().get_node_id()
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(here, soft=False)
        return ray.remote(kind).options(**options).remote()


# How long a worker waits for news in one call.
WATCH_S = 10.0


class LeaseDesk:
    """The leases of a run, by the names of servers and budgets."""

    def __init__(self) -> None:
        self._version, self._news = 0, asyncio.Event()
        self._servers: defaultdict[str, LimitLeases] = defaultdict(LimitLeases)
        self._budgets: defaultdict[str, BudgetLeases] = defaultdict(BudgetLeases)

    def ping(self) -> None:
        """Return: the process is alive."""

    def exchange(self, worker: str, reports: Mapping[str, LimitReport | SpendReport]) -> dict[str, Share | SpendAnswer]:
        """Record the reports of a worker and return its new leases, by the same names."""
        now = time.monotonic()
        answers: dict[str, Share | SpendAnswer] = {}
        for name, report in reports.items():
            leases: Any = self._servers[name] if isinstance(report, LimitReport) else self._budgets[name]
            before = leases.news
            answers[name] = leases.exchange(worker, report, now)
            if leases.news != before:
                self._publish()
        return answers

    async def wait_for_news(self, version: int) -> int:
        """Return another version than this one as soon as workers should exchange, or the same after `WATCH_S`."""
        if self._version == version:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), WATCH_S)
        return self._version

    def forget(self, worker: str) -> None:
        """Return the shares of a worker that has died; what it had leased of budgets counts as spent."""
        for limits in self._servers.values():
            limits.forget(worker)
        for budget in self._budgets.values():
            budget.forget(worker)

    def _publish(self) -> None:
        self._version += 1
        self._news.set()
        self._news = asyncio.Event()
