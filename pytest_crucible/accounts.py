"""What a session may spend, from its options and its project's prices; and what it says in the end of what it spent."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import pytest

from pytest_crucible.backends.prices import Prices
from pytest_crucible.backends.purse import Purse, SharedPurse
from pytest_crucible.backends.spending import Spending
from pytest_crucible.plan.adapters import read_prices


def spending(config: pytest.Config, budgets: tuple[str, ...], run: str) -> Spending:
    """Raises SpecError for prices or a budget that cannot be read."""
    prices = Prices(read_prices(config.rootpath))
    if not budgets:
        return Spending(prices=prices)
    return Spending(", ".join(budgets), prices, _purse(config, run))


def of_run(money: Spending) -> list[str]:
    """What the run has spent of its budget."""
    return [] if money.run is None else [f"budget   {money.run}"]


def of_experiment(money: Spending, nodeid: str) -> list[str]:
    """What an experiment has spent of its own budget."""
    budget = money.budgets.get(nodeid)
    return [] if budget is None else [f"budget   {nodeid}: {budget}"]


def _purse(config: pytest.Config, run: str) -> Purse | None:
    """The workers of a run count together; who is alone counts alone."""
    is_worker = hasattr(config, "workerinput")
    if not (is_worker or config.pluginmanager.hasplugin("dsession")):
        return None
    name = hashlib.sha256(f"{run} budget".encode()).hexdigest()[:24]
    return SharedPurse(Path(tempfile.gettempdir()) / f"pytest-crucible-{name}", removes=not is_worker)
