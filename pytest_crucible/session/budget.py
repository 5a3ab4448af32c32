"""A session's budget: from its options and its project's prices to the lines that report expenses."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence

import pytest

from pytest_crucible.adapters.config_tables import read_prices
from pytest_crucible.backends.budget import SharedLedger, SpendLedger
from pytest_crucible.backends.spending import Prices, Spending
from pytest_crucible.records import BUDGET, BudgetSpent, Emit, Event
from pytest_crucible.records.files import runtime_folder


def open_spending(config: pytest.Config, budgets: tuple[str, ...], run: str) -> Spending:
    """Return the session's budgets and the prices. Raises SpecError for invalid prices or budgets."""
    prices = Prices(read_prices(config.rootpath))
    if not budgets:
        return Spending(prices=prices)
    return Spending(", ".join(budgets), prices, _purse(config, run))


def emit_budgets(emit: Emit, money: Spending, nodeid: str = "") -> None:
    """Emit how much of its budget the run has spent so far, and how much an experiment has spent of its own."""
    own = money.budgets.get(nodeid)
    for place, budget in (("", money.run), *([(nodeid, own)] if own is not None else [])):
        if budget is not None:
            facts = {"budget": budget.text, **budget.spent()._asdict(), "said": str(budget)}
            emit(Event(name=BUDGET, at=time.time(), experiment=place, facts=facts))


def budget_lines(budgets: Sequence[BudgetSpent]) -> list[str]:
    """Return a line for each budget: the experiments' budgets, then the run's."""
    ordered = sorted(budgets, key=lambda budget: not budget.experiment)
    return [f"budget   {f'{budget.experiment}: ' if budget.experiment else ''}{budget.said}" for budget in ordered]


def _purse(config: pytest.Config, run: str) -> SpendLedger | None:
    """Return the ledger that all workers of a run share; None for a run in one process."""
    is_worker = hasattr(config, "workerinput")
    if not (is_worker or config.pluginmanager.hasplugin("dsession")):
        return None
    name = hashlib.sha256(f"{run} budget".encode()).hexdigest()[:24]
    return SharedLedger(runtime_folder() / f"budget-{name}", removes_file=not is_worker)
