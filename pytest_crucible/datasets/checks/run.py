"""Runs checks on the samples of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.datasets.checks.check import Check
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.combined import bind_files
from pytest_crucible.records import Sample
from pytest_crucible.records.data_checks import CheckResult


def check_samples(
    samples: Sequence[Sample], checks: Sequence[Check], *, folder: Path | None = None
) -> tuple[CheckResult, ...]:
    """Return the result of each check. Relative paths of files count from `folder`, by default the working directory.

    >>> from pytest_crucible.datasets.checks import expect_no_missing_values
    >>> [result] = check_samples([Sample(id="a", input="2 + 2")], [expect_no_missing_values("expected")])
    >>> result.state, result.message
    ('failed', "no sample has a field 'expected'; the fields are id, input")
    """
    return number_subjects(run_checks(samples, checks, folder=folder or Path()))


def run_checks(samples: Sequence[Sample], checks: Sequence[Check], *, folder: Path) -> list[CheckResult]:
    """Return the result of each check; equal checks have equal subjects."""
    table = Table(samples, names=[name for check in checks for name in check.columns])
    return [bind_files(check, folder).run(table) for check in checks]


def number_subjects(results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results with different subjects: of two equal ones, the second ends in ` #2`."""
    counts: dict[str, int] = {}
    numbered = []
    for result in results:
        counts[result.subject] = number = counts.get(result.subject, 0) + 1
        numbered.append(result if number == 1 else replace(result, subject=f"{result.subject} #{number}"))
    return tuple(numbered)
