"""Reports the data checks before the test of their experiment, which is skipped where one of them has failed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.session.data_checks import Place, check_reports, remove_shared
from pytest_crucible.session.part_reports import name_in_junit
from pytest_crucible.session.repeated_items import collected_nodeid
from pytest_crucible.session.verdict_reports import rerun_report


# Compared by identity: plugins have to be hashable.
@dataclass(eq=False)
class CheckItems:
    """A pytest plugin. A worker of pytest-xdist sends the results along with its reports, and the controller reports them."""

    config: pytest.Config
    run: str
    results: Mapping[str, Sequence[CheckResult]]
    experiment_of: Callable[[pytest.Item], str | None]
    only: bool
    """Whether the session checks and samples nothing."""
    lines: list[str] = field(default_factory=list)
    """Lines of the summary. Warnings are among them if no experiment runs that could warn."""
    failed: dict[str, None] = field(default_factory=dict)
    """The experiments of which a check has failed."""
    _reported: set[str] = field(default_factory=set)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Report the checks of an experiment before its test begins."""
        if not self._is_worker:
            self.report(*self.pop(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send the results to the controller, with the first report of their test."""
        report = yield
        if self._is_worker:
            place, results = self.pop(item)
            # A report of xdist carries plain values only.
            report.crucible_checks = to_plain([place, results])  # type: ignore[attr-defined]  # read below
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report a worker's checks, in the controller."""
        sent = getattr(report, "crucible_checks", None)
        if sent is not None and not self._is_worker:
            place, results = sent
            self.report(from_plain(Place, place), [from_plain(CheckResult, plain) for plain in results])

    @property
    def _is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test before its fixtures are set up, which may call a model themselves."""
        nodeid = self.experiment_of(item)
        if nodeid is None:
            return
        failed = [result for result in self.results.get(nodeid, ()) if result.state == "failed"]
        if failed:
            pytest.skip(f"nothing was sent: {failed[0].call} failed")
        if self.only:
            has_checks = nodeid in self.results
            pytest.skip(f"not sampled: --crucible-checks=only{'' if has_checks else ', and it has no data check'}")

    def pop(self, item: pytest.Item) -> tuple[Place, Sequence[CheckResult]]:
        """Return the location of an item, and the results that were not reported yet."""
        nodeid = collected_nodeid(item)
        results = () if nodeid in self._reported else self.results.get(nodeid, ())
        self._reported.add(nodeid)
        path, line, _ = item.location
        return Place(nodeid, path, line or 0), results

    def report(self, place: Place, results: Sequence[CheckResult]) -> None:
        """Report the checks of one experiment as tests."""
        for result in results:
            reports = check_reports(place, result)
            self.config.hook.pytest_runtest_logstart(nodeid=reports[0].nodeid, location=reports[0].location)
            name_in_junit(self.config, reports[0], place.nodeid, result.subject)
            for report in reports:
                self.config.hook.pytest_runtest_logreport(report=report)
        if any(result.state == "failed" for result in results):
            self.failed[place.nodeid] = None
        if self.only:
            self.lines += [f"{place.nodeid}: {result.sentence}" for result in results if result.state == "warned"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Let --lf run the experiment again: pytest cannot run a check by itself, and has seen its test as skipped."""
        last_failed: Any = self.config.pluginmanager.get_plugin("lfplugin")
        for nodeid in self.failed if last_failed is not None else ():
            last_failed.pytest_runtest_logreport(report=rerun_report(nodeid))
        if not self._is_worker:
            remove_shared(self.run)
