"""A session's budget: its ledger, its events and its lines."""

from __future__ import annotations

import pytest

from pytest_crucible.backends.spending import Prices, Spending
from pytest_crucible.records import BUDGET, BudgetSpent, Event
from pytest_crucible.records.errors import SpecError
from pytest_crucible.session.resources import budget_lines, emit_budgets, open_spending


def spent(experiment: str, sentence: str) -> BudgetSpent:
    zero = dict.fromkeys(("usd", "tokens", "requests", "unpriced", "uncounted"), 0)
    fields = {name: zero.get(name, 0) for name in BudgetSpent.__dataclass_fields__}
    return BudgetSpent(**{**fields, "experiment": experiment, "budget": "5 USD", "said": sentence})


def test_without_a_budget_there_is_nothing_to_report(pytester):
    events: list[Event] = []
    spending = open_spending(pytester.parseconfig(), (), "run")

    emit_budgets(events.append, spending, "test_a.py::test_a")

    assert spending.run is None
    assert events == []


def test_the_budget_of_the_run_and_of_an_experiment_are_emitted_apart():
    events: list[Event] = []
    spending = Spending("100 requests", Prices({}))
    spending.allow("test_a.py::test_a", "10 requests", ["v2"])

    emit_budgets(events.append, spending, "test_a.py::test_a")

    assert [(event.name, event.experiment, event.facts["budget"]) for event in events] == [
        (BUDGET, "", "100 requests"),
        (BUDGET, "test_a.py::test_a", "10 requests"),
    ]


def test_an_experiment_without_a_budget_emits_only_the_budget_of_the_run():
    events: list[Event] = []

    emit_budgets(events.append, Spending("100 requests", Prices({})), "test_a.py::test_a")

    assert [event.experiment for event in events] == [""]


def test_the_budget_of_the_run_comes_last():
    assert budget_lines([spent("", "3 of 5 USD"), spent("test_a", "1 of 2 USD")]) == [
        "budget   test_a: 1 of 2 USD",
        "budget   3 of 5 USD",
    ]


@pytest.mark.parametrize("text", ["five dollars", "5 EUR", "-1 USD"])
def test_a_budget_that_cannot_be_read_is_refused(pytester, text):
    with pytest.raises(SpecError):
        open_spending(pytester.parseconfig(), (text,), "run")


def test_one_process_has_no_shared_ledger(pytester, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    open_spending(pytester.parseconfig(), ("5 USD",), "run").close()

    assert list(tmp_path.glob("pytest-crucible-*")) == []
