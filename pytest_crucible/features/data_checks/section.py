"""Results of data checks: in plans, as a section of reports, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_crucible.records import Claim, Note, Row, Table, View
from pytest_crucible.records.datasets import CheckResult
from pytest_crucible.records.plan import PlanValue
from pytest_crucible.stats.number_format import quantity

if TYPE_CHECKING:
    from pytest_crucible.sections.inputs import SectionInputs

RESULTS = PlanValue[tuple[CheckResult, ...]]("checks", tuple[CheckResult, ...], ())
"""The results of the data checks. One that failed keeps the experiment from sending anything."""
decides = False  # no claim of it can fail the session


def compute(inputs: SectionInputs) -> tuple[CheckResult, ...] | None:
    """Return the results of the experiment's data checks; None without any."""
    return RESULTS.of(inputs.plan) or None


def claims(results: Sequence[CheckResult]) -> Sequence[Claim]:
    """Return nothing: a failed check is a test report of its own."""
    return ()


def view(results: Sequence[CheckResult], claims: Sequence[Claim]) -> View:
    """Return a table of all checks, and a note on those that are not met."""
    wrong = tuple(result.sentence for result in results if result.state != "passed")
    note = Note(text=f"data checks: {count_text(results)}", details=wrong, verbosity=0 if wrong else 1)
    table = replace(check_table(results), verbosity=2)
    return View(title="Data checks", tables=(table,), notes=(note,), document=list(results))


_STATES = {"passed": "met", "warned": "undecided", "failed": "missed"}


def check_table(results: Sequence[CheckResult]) -> Table:
    """Return a row for each check."""
    rows = [
        Row(
            cells=(result.call, f"{result.checked:,}", f"{result.missing:,}", f"{result.failing:,}", result.state),
            state=_STATES[result.state],  # type: ignore[arg-type]  # a state, by the table above
            below="" if result.state == "passed" else result.message,
        )
        for result in results
    ]
    heads = ("check", "checked", "missing", "failing", "result")
    return Table(title="Data checks", heads=heads, rows=tuple(rows), numbers=("checked", "missing", "failing"))


def count_text(results: Sequence[CheckResult]) -> str:
    """Return how many checks passed, warned and failed.

    >>> count_text([CheckResult(subject="s", call="c", state="passed", message="")])
    '1 check passed'
    """
    counts = [(state, sum(result.state == state for result in results)) for state in ("failed", "warned", "passed")]
    states = [(state, count) for state, count in counts if count]
    first = f"{quantity(states[0][1], 'check')} {states[0][0]}" if states else "no checks"
    return ", ".join([first, *(f"{count} {state}" for state, count in states[1:])])


def check_view(name: str, results: Sequence[CheckResult], notes: Sequence[str] = ()) -> View:
    """Return the checks of a dataset as a page."""
    return View(
        title=f"Data checks of {name}",
        tables=(check_table(results),),
        notes=(Note(text=count_text(results)), *(Note(text=text) for text in notes)),
        document={"dataset": name, "checks": list(results)},
    )
