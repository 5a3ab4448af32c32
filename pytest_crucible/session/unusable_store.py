"""Fails the setup of experiments and joined tests if the run store cannot be used. Other tests run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from pytest_crucible.records.errors import StoreError
from pytest_crucible.report.printable import printable


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
