"""Holds the limits and budgets of a run and leases them to its workers; one process has it, and all others call it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pytest_crucible.features.scale.budget_leases import BudgetLeases, SpendAnswer, SpendReport
from pytest_crucible.features.scale.limit_leases import LimitLeases, LimitReport, Share

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
