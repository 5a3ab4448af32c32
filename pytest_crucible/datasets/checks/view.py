"""The results of data checks as a table."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import Note, Row, Table, View
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.stats.number_format import quantity

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
