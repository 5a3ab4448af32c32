"""Expectations that combine others. Each is checked, even after another one has failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pytest_crucible.datasets.checks.arguments import check_count
from pytest_crucible.datasets.checks.check import NOTHING, Check, CheckContext, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import column_check
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.errors import SpecError


@column_check
def expect_all(checks: Sequence[Check]) -> Check:
    """Expect that all of the checks are met."""
    return _combine(_children(checks), len(checks))


@column_check
def expect_any(checks: Sequence[Check]) -> Check:
    """Expect that at least one of the checks is met."""
    return _combine(_children(checks), 1)


@column_check
def expect_at_least(count: int, checks: Sequence[Check]) -> Check:
    """Expect that at least `count` of the checks are met."""
    check_count("count", count)
    children = _children(checks)
    if not 1 <= count <= len(children):
        raise SpecError(
            f"count is {count}, and there are {len(children)} checks; write a number from 1 to {len(children)}"
        )
    return _combine(children, count)


def _children(checks: Any) -> tuple[Check, ...]:
    if not isinstance(checks, list | tuple) or not checks or not all(isinstance(check, Check) for check in checks):
        raise SpecError('give a list of checks, such as [expect_no_missing_values("label")]')
    if any(check.drops for check in checks):
        raise SpecError("drop=True leaves samples out, which a combined check cannot; give that check by itself")
    return tuple(checks)


def _combine(children: tuple[Check, ...], least: int) -> Check:
    def find(table: Table) -> Finding:
        return _join(table, [child.run(table) for child in children], least)

    return Check(
        subject="",
        call="",
        find=find,
        columns=tuple(name for child in children for name in child.columns),
        children=children,
        files=tuple(file for child in children for file in child.files),
        bind=lambda context: _combine(tuple(bind_files(child, context) for child in children), least).find,
    )


def _join(table: Table, results: Sequence[CheckResult], least: int) -> Finding:
    met = sum(result.state == "passed" for result in results)
    expected = "all" if least == len(results) else f"at least {least}"
    faults = "; ".join(result.sentence for result in results if result.state != "passed")
    is_met = met >= least
    message = f"{met} of {len(results)} checks are met" + ("" if is_met else f", and {expected} are expected: {faults}")
    return Finding(message=message, failing=NOTHING, checked=len(table), is_met=is_met)


def bind_files(check: Check, context: CheckContext) -> Check:
    """Return the check with the paths of its files."""
    return check if check.bind is None else replace(check, find=check.bind(context), bind=None)
