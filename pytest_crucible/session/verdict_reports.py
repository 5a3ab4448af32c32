"""Reports each verdict as a test, so that exit status, short summary, JUnit files, --lf and xdist know it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from pytest_crucible.records import Analysis, Verdict
from pytest_crucible.report.printable import printable
from pytest_crucible.report.verdicts import evidence, sentence
from pytest_crucible.session.expected_failures import ExpectedFailure, apply_expected_failure
from pytest_crucible.session.part_reports import part_id, part_location


class VerdictRepr:
    """The sentence of a failed verdict, in the shape in which pytest prints failures and writes JUnit files."""

    def __init__(self, sentence: str) -> None:
        self._sentence = sentence
        self.reprcrash = SimpleNamespace(message=sentence)

    def __str__(self) -> str:
        return self._sentence

    def toterminal(self, tw: pytest.TerminalReporter) -> None:
        tw.line(self._sentence)


def verdict_reports(
    verdict: Verdict,
    analysis: Analysis,
    *,
    family_size: int,
    undecided_fails: bool,
    expected: ExpectedFailure | None = None,
) -> list[pytest.TestReport]:
    """Return setup, call and teardown reports of a verdict, so that every plugin that reads test reports sees it."""
    text = printable(sentence(verdict, analysis, family_size))
    setup, call, teardown = (
        _report(verdict, analysis, text, when, undecided_fails) for when in ("setup", "call", "teardown")
    )
    if expected is not None:
        apply_expected_failure(call, expected)
    return [setup, call, teardown]


def rerun_report(nodeid: str, outcome: Literal["failed", "skipped"] = "failed") -> pytest.TestReport:
    """Return the report that makes pytest's --lf run an item again, or forget it: the item passed, but its verdict failed."""
    return pytest.TestReport(
        nodeid=nodeid, location=("", None, ""), keywords={}, outcome=outcome, longrepr=None, when="call"
    )


def _report(verdict: Verdict, analysis: Analysis, text: str, when: Any, undecided_fails: bool) -> pytest.TestReport:
    plan = analysis.plan
    outcome: Any = _outcome(verdict, undecided_fails) if when == "call" else "passed"
    reprs = {"passed": None, "skipped": (plan.path, plan.line + 1, f"Skipped: {text}"), "failed": VerdictRepr(text)}
    return pytest.TestReport(
        nodeid=part_id(plan.nodeid, verdict.subject),
        location=part_location(plan.path, plan.line, plan.nodeid, verdict.subject),
        keywords={"crucible": 1},
        outcome=outcome,
        longrepr=cast(Any, reprs[outcome]),
        when=when,
        # pytest copies the properties of the call and of the teardown into JUnit files.
        user_properties=_properties(verdict, analysis, text) if when != "setup" else [],
    )


def _properties(verdict: Verdict, analysis: Analysis, text: str) -> list[tuple[str, object]]:
    """Return the verdict and the unrounded numbers behind it, for JUnit files."""
    properties: list[tuple[str, object]] = [("crucible_state", verdict.state), ("crucible_sentence", text)]
    numbers = evidence(verdict, analysis)
    return [*properties, *((f"crucible_{name}", value) for name, value in numbers.items() if value is not None)]


def _outcome(verdict: Verdict, undecided_fails: bool) -> str:
    if verdict.state == "undecided" and not (undecided_fails or verdict.suite_error):
        return "skipped"
    return "passed" if verdict.state == "met" else "failed"
