"""Data checks: the results of checks before sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.datasets.checks.view import check_table, count_text
from pytest_crucible.records import Claim, Note, View
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.sections.inputs import SectionInputs

decides = False  # no claim of it can fail the session


def compute(inputs: SectionInputs) -> tuple[CheckResult, ...] | None:
    """Return the results of the experiment's data checks; None without any."""
    return inputs.plan.checks or None


def claims(results: Sequence[CheckResult]) -> Sequence[Claim]:
    """Return nothing: a failed check is a test report of its own."""
    return ()


def view(results: Sequence[CheckResult], claims: Sequence[Claim]) -> View:
    """Return a table of all checks, and a note on those that are not met."""
    wrong = tuple(result.sentence for result in results if result.state != "passed")
    note = Note(text=f"data checks: {count_text(results)}", details=wrong, verbosity=0 if wrong else 1)
    table = check_table(results)
    return View(
        title="Data checks",
        tables=(replace(table, verbosity=2),),
        notes=(note,),
        document=list(results),
    )
