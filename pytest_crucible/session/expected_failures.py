"""`@pytest.mark.xfail` on an experiment expects its verdicts to fail, not its function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from _pytest.skipping import xfailed_key

ExpectedFailure = Mapping[str, Any]
"""`reason` and `strict` of the marker; plain data, since a worker of xdist sends it to the controller."""


def expected_failure(item: pytest.Item) -> ExpectedFailure | None:
    """Return the marker of an item that has run, if its condition holds and it expects a failed assertion."""
    expected = item.stash.get(xfailed_key, None)
    if expected is None or item.config.option.runxfail:
        return None
    # A verdict raises nothing: it counts as a failed assertion.
    raises = AssertionError if expected.raises is None else expected.raises
    if not isinstance(raises, type | tuple) or not issubclass(AssertionError, raises):
        return None
    return {"reason": expected.reason, "strict": expected.strict}


def forget_unexpected_pass(report: pytest.TestReport, call: pytest.CallInfo[Any]) -> None:
    """Report a function as passed that pytest's own plugin has reported as an unexpected pass."""
    if report.when == "call" and call.excinfo is None:
        report.outcome, report.longrepr = "passed", None
        if hasattr(report, "wasxfail"):
            del report.wasxfail


def apply_expected_failure(report: pytest.TestReport, expected: ExpectedFailure) -> None:
    """Turn a missed verdict into an expected failure, and one that is met into an unexpected pass."""
    reason = expected["reason"]
    if report.failed:
        report.outcome, report.wasxfail = "skipped", reason
    elif report.passed and expected["strict"]:
        report.outcome, report.longrepr = "failed", f"[XPASS(strict)] {reason}"
    elif report.passed:
        report.wasxfail = reason
