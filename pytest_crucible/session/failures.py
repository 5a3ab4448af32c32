"""Failures beside those of tests: of planning, of the run store, and those that `xfail` expects of verdicts."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from _pytest.outcomes import OutcomeException
from _pytest.skipping import xfailed_key

from pytest_crucible.records.errors import StoreError
from pytest_crucible.report.printable import printable

_PACKAGE = Path(__file__).parents[1]


class PlanningFailures:
    """The failures by the nodeid of their experiment; one that concerns all experiments has no nodeid."""

    def __init__(self) -> None:
        self._failures: dict[str, BaseException] = {}

    def add(self, where: str, error: BaseException) -> None:
        """Keep the first failure of an experiment, or of all: `where` is then empty."""
        outcome = error if isinstance(error, OutcomeException) else None
        self._failures.setdefault(where, outcome or pytest.fail.Exception(describe(error), pytrace=False))

    def raise_for(self, nodeid: str) -> None:
        """Raise the failure of an experiment, if there is one."""
        failure = self._failures.get(nodeid) or self._failures.get("")
        if failure is not None:
            raise failure

    def names(self) -> list[str]:
        """Return the nodeids of the experiments that failed."""
        return [name for name in self._failures if name]

    def sentences(self) -> list[str]:
        """Return all failures, for a session that runs no test."""
        return [f"{where}: {error}" if where else str(error) for where, error in self._failures.items()]


def describe(error: BaseException) -> str:
    """Return one sentence with the exception, and the file and line where it was raised."""
    exception = " ".join(traceback.format_exception_only(error)[-1].split())
    place = _place(error)
    return f"the experiment cannot be planned: {exception}" + (f" ({place[0]}, line {place[1]})" if place else "")


def _place(error: BaseException) -> tuple[str, int] | None:
    """Return the innermost line outside of this package and of installed ones."""
    # A module that cannot be compiled has no frame of its own.
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).name, error.lineno or 1
    frames: list[Any] = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(Path(frame.filename))] or frames[-1:]
    return (Path(own[-1].filename).name, own[-1].lineno) if own else None


def _is_own(path: Path) -> bool:
    is_installed = {"site-packages", "importlib"} & set(path.parts) or path.is_relative_to(_PACKAGE)
    return path.is_file() and not is_installed


class UnusableStore:
    """A pytest plugin. It does nothing until the run store could not be opened, or not take the plans."""

    def __init__(self, experiment_of: Callable[[pytest.Item], str | None]) -> None:
        self.sentence = ""
        self._experiment_of = experiment_of

    def record(self, error: StoreError) -> None:
        """Record why the store cannot be used. The first error counts, since it may be the cause of others."""
        self.sentence = self.sentence or printable(str(error))

    # After pytest's own, which skips; before fixtures are set up, which may call a model themselves.
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Report an error at the setup of an experiment, and of each item of a joined test."""
        if self.sentence and self._experiment_of(item) is not None:
            raise pytest.fail.Exception(self.sentence, pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Report the error also of an experiment with `xfail`, which expects a verdict to fail, not the store."""
        report = yield
        is_ours = call.excinfo is not None and str(call.excinfo.value) == self.sentence
        if self.sentence and is_ours and hasattr(report, "wasxfail"):
            report.outcome = "failed"
            del report.wasxfail
        return report


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
