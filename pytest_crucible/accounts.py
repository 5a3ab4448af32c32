"""What a session may spend, from its options and its project's prices; and what it says in the end of what it spent."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_crucible.backends.prices import Prices
from pytest_crucible.backends.purse import Purse, SharedPurse
from pytest_crucible.backends.spending import Spending
from pytest_crucible.plan.adapters import read_prices
from pytest_crucible.records import BUDGET, BudgetSpent, Emit, Event


def spending(config: pytest.Config, budgets: tuple[str, ...], run: str) -> Spending:
    """Raises SpecError for prices or a budget that cannot be read."""
    prices = Prices(read_prices(config.rootpath))
    if not budgets:
        return Spending(prices=prices)
    return Spending(", ".join(budgets), prices, _purse(config, run))


def tell_budgets(emit: Emit, money: Spending, nodeid: str = "") -> None:
    """Tell what the run has spent of its budget by now, and an experiment of its own."""
    own = money.budgets.get(nodeid)
    for place, budget in (("", money.run), *([(nodeid, own)] if own is not None else [])):
        if budget is not None:
            facts = {"budget": budget.text, **budget.spent()._asdict(), "said": str(budget)}
            emit(Event(name=BUDGET, at=time.time(), experiment=place, facts=facts))


def budget_lines(budgets: Sequence[BudgetSpent]) -> list[str]:
    """Those of experiments, then the run's."""
    placed = sorted(budgets, key=lambda one: not one.experiment)
    return [f"budget   {f'{one.experiment}: ' if one.experiment else ''}{one.said}" for one in placed]


def _purse(config: pytest.Config, run: str) -> Purse | None:
    """The workers of a run count together; who is alone counts alone."""
    is_worker = hasattr(config, "workerinput")
    if not (is_worker or config.pluginmanager.hasplugin("dsession")):
        return None
    name = hashlib.sha256(f"{run} budget".encode()).hexdigest()[:24]
    return SharedPurse(Path(tempfile.gettempdir()) / f"pytest-crucible-{name}", removes=not is_worker)
