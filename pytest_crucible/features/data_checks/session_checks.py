"""Data checks of a session: run once a run while it is planned, and reported as tests before their experiment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_crucible.adapters.context import files_folder
from pytest_crucible.datasets import hash_samples, identify
from pytest_crucible.datasets.check import (
    Check,
    CheckContext,
    Finding,
    drop_failing,
    finding_from_plain,
    finding_to_plain,
    number_subjects,
    search_samples,
)
from pytest_crucible.features import left_out_sentence, load_rows
from pytest_crucible.features.data_checks.section import RESULTS
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.datasets import CheckResult
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.files import NotPrivateError, file_lock, runtime_folder
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.session.items import collected_nodeid
from pytest_crucible.session.marks import marks_of
from pytest_crucible.session.reports import VerdictRepr, name_in_junit, part_id, part_location, rerun_report

if TYPE_CHECKING:
    from pytest_crucible.session.experiment_data import ExperimentData
    from pytest_crucible.session.session import CrucibleSession

# The place in memory of a function or object, which differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

# The keys of a check: of its finding, and of its error.
_Keys = tuple[str, str]

_Compute = Callable[[Sequence[Check]], Sequence[Finding | str]]


@dataclass
class DataChecks:
    """Runs the checks of a session. Equal checks on equal samples run once, in whichever worker comes first."""

    folder: Path | None = None
    """Where the workers of a run share their findings; None for a session of one process."""
    results: dict[str, tuple[CheckResult, ...]] = field(default_factory=dict)
    """Nodeid of an experiment -> the results of its checks."""
    _known: dict[str, Finding | str] = field(default_factory=dict)
    _places: dict[str, tuple[str, Check]] = field(default_factory=dict)
    """Identity of a check on an object of the user's -> the first test that has it. The check keeps the object, and its address."""

    def run(
        self,
        nodeid: str,
        checks: Sequence[Check],
        dataset: Dataset,
        context: CheckContext,
        *,
        stem: str = "",
        before: Sequence[CheckResult] = (),
    ) -> tuple[CheckResult, ...]:
        """Return the results of an experiment's checks, after those that were run `before`.

        `stem` is that of ids that were made for this experiment; empty where its ids are those of the dataset.
        """
        findings = self._search(nodeid, checks, dataset, context, stem) if checks else []
        results = [check.decide(dataset.samples, finding) for check, finding in zip(checks, findings, strict=True)]
        self.results[nodeid] = number_subjects([*before, *results])
        return self.results[nodeid]

    def drop_failing(
        self, nodeid: str, checks: Sequence[Check], samples: Sequence[Sample], context: CheckContext, *, stem: str = ""
    ) -> tuple[Sequence[Sample], list[CheckResult]]:
        """Return the samples that meet the checks with `drop=True`, and their results. Raises DatasetError if none is left."""

        def search(rest: Sequence[Sample], check: Sequence[Check], places: CheckContext) -> list[Finding | str]:
            return self._search(nodeid, check, identify("", rest), places, stem)

        return drop_failing(samples, checks, context, search) if checks else (samples, [])

    def _search(
        self, nodeid: str, checks: Sequence[Check], dataset: Dataset, context: CheckContext, stem: str
    ) -> list[Finding | str]:
        """Return the finding of each check, unless this experiment or another one has it already."""
        content = hash_samples(dataset.samples, stem=stem) if stem else dataset.sha256
        family = "".join(self._identity(nodeid, check) for check in checks if check.shares_alpha)
        keys = []
        for check in checks:
            base = f"{context.folder if check.files else ''}{family if check.shares_alpha else ''}"
            identity = f"{self._identity(nodeid, check)}|{base}"
            # A finding has places of samples; only a check of ids, or an error, may name an id.
            data = dataset.sha256 if "id" in check.columns else content
            keys.append((_key(data, identity), _key(dataset.sha256, f"error|{identity}")))
        return self._share(keys, checks, lambda new: search_samples(dataset.samples, new, context))

    def _identity(self, nodeid: str, check: Check) -> str:
        """Return the identity of a check, equal in all workers of a run.

        An address is that of one process: in its place is the first test that has the check, which all workers collect in
        one order. So a function of the user's that two tests share is one function, and two functions that look alike are two.
        """
        if not _ADDRESS.search(check.identity):
            return check.identity
        place, _ = self._places.setdefault(check.identity, (f"{nodeid}|{len(self._places)}", check))
        return f"{_ADDRESS.sub('', check.identity)}|{place}"

    def _share(self, keys: Sequence[_Keys], checks: Sequence[Check], compute: _Compute) -> list[Finding | str]:
        if self.folder is None:
            return self._look_up(keys, checks, compute)
        with file_lock(self.folder / "lock", wait=lambda: None):
            path = self.folder / "findings.json"
            if path.exists():
                stored = json.loads(path.read_text(encoding="utf-8"))
                self._known |= {key: finding_from_plain(plain) for key, plain in stored.items()}
            findings = self._look_up(keys, checks, compute)
            plain = {key: finding_to_plain(finding) for key, finding in self._known.items()}
            path.write_text(json.dumps(plain), encoding="utf-8")
        return findings

    def _look_up(self, keys: Sequence[_Keys], checks: Sequence[Check], compute: _Compute) -> list[Finding | str]:
        # Checks that share an error rate have it in their keys: they are all new, or none is.
        new = [at for at, pair in enumerate(keys) if self._known.keys().isdisjoint(pair)]
        for at, finding in zip(new, compute([checks[at] for at in new]) if new else (), strict=True):
            self._known[keys[at][isinstance(finding, str)]] = finding
        return [self._known[first if first in self._known else second] for first, second in keys]


def shared_folder(run: str) -> Path:
    """Return the folder in which the workers of a run, on one machine, share results of checks. Raises NotPrivateError."""
    return runtime_folder() / f"checks-{run}"


def _key(data: str, identity: str) -> str:
    return hashlib.sha256(f"{data}|{identity}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """The test function that checks belong to."""

    nodeid: str
    path: str
    line: int


def check_reports(place: Place, result: CheckResult) -> list[pytest.TestReport]:
    """Return setup, call and teardown reports of a check, so that every plugin that reads test reports sees it."""
    failed = result.state == "failed"
    facts = ("state", "sentence", "checked", "missing", "failing")
    properties = [(f"crucible_{name}", getattr(result, name)) for name in facts]
    return [
        pytest.TestReport(
            nodeid=part_id(place.nodeid, result.subject),
            location=part_location(place.path, place.line, place.nodeid, result.subject),
            keywords={"crucible": 1},
            outcome="failed" if failed and when == "call" else "passed",
            longrepr=cast(Any, VerdictRepr(result.sentence)) if failed and when == "call" else None,
            when=when,
            user_properties=properties if when == "call" else [],
        )
        for when in ("setup", "call", "teardown")
    ]


# Compared by identity: plugins have to be hashable.
@dataclass(eq=False)
class CheckItems:
    """A pytest plugin. A worker of pytest-xdist sends the results along with its reports, and the controller reports them."""

    session: CrucibleSession
    checks: DataChecks
    failed: dict[str, None] = field(default_factory=dict)
    """The experiments of which a check has failed."""
    _reported: set[str] = field(default_factory=set)

    def check_data(self, data: ExperimentData, checks: Sequence[Check]) -> None:
        """Run the checks of an experiment, unless nothing is sent, and leave out the samples that fail those with `drop=True`."""
        if not checks or self._when == "off" or not self.session.collection.spends:
            return
        nodeid, config = data.item.nodeid, data.item.config
        # Files lie next to the test, and earlier comparisons next to the run store.
        cache = files_folder(config.rootpath, self.session.settings.store)
        context = CheckContext(folder=data.item.path.parent, cache=cache)
        stem = "" if isinstance(data.mark.dataset, str | Path) else data.item.name
        # First, because the other checks judge the samples that remain.
        drops = [check for check in checks if check.drops]
        rest, dropped = self.checks.drop_failing(nodeid, drops, data.selected.samples, context, stem=stem)
        data.dataset = identify(data.dataset.name, rest)
        others = [check for check in checks if not check.drops]
        results = self.checks.run(nodeid, others, data.dataset, context, stem=stem, before=dropped)
        data.plan_value(RESULTS, results)
        data.warnings += [result.sentence for result in results if result.state == "warned"]

    @property
    def _when(self) -> str:
        return str(self.session.settings.option("checks"))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Report the checks of an experiment before its test begins."""
        if not self.session.is_worker:
            self.report(*self.pop(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send the results to the controller, with the first report of their test."""
        report = yield
        if self.session.is_worker:
            place, results = self.pop(item)
            # A report of xdist carries plain values only.
            report.crucible_checks = to_plain([place, results])  # type: ignore[attr-defined]  # read below
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Report a worker's checks, in the controller."""
        sent = getattr(report, "crucible_checks", None)
        if sent is not None and not self.session.is_worker:
            place, results = sent
            self.report(from_plain(Place, place), [from_plain(CheckResult, plain) for plain in results])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test before its fixtures are set up, which may call a model themselves."""
        nodeid = self.session.collection.marked.experiment_of(item)
        if nodeid is None:
            return
        failed = [result for result in self.checks.results.get(nodeid, ()) if result.state == "failed"]
        if failed:
            pytest.skip(f"nothing was sent: {failed[0].call} failed")
        if self._when == "only":
            has_checks = nodeid in self.checks.results
            pytest.skip(f"not sampled: --crucible-checks=only{'' if has_checks else ', and it has no data check'}")

    def pop(self, item: pytest.Item) -> tuple[Place, Sequence[CheckResult]]:
        """Return the location of an item, and the results that were not reported yet."""
        nodeid = collected_nodeid(item)
        results = () if nodeid in self._reported else self.checks.results.get(nodeid, ())
        self._reported.add(nodeid)
        path, line, _ = item.location
        return Place(nodeid, path, line or 0), results

    def report(self, place: Place, results: Sequence[CheckResult]) -> None:
        """Report the checks of one experiment as tests."""
        for result in results:
            reports = check_reports(place, result)
            self.session.config.hook.pytest_runtest_logstart(nodeid=reports[0].nodeid, location=reports[0].location)
            name_in_junit(self.session.config, reports[0], place.nodeid, result.subject)
            for report in reports:
                self.session.config.hook.pytest_runtest_logreport(report=report)
        if any(result.state == "failed" for result in results):
            self.failed[place.nodeid] = None
        if self._when == "only":
            warned = (result.sentence for result in results if result.state == "warned")
            self.session.messages.lines += [f"{place.nodeid}: {sentence}" for sentence in warned]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Let --lf run the experiment again: pytest cannot run a check by itself, and has seen its test as skipped."""
        last_failed: Any = self.session.config.pluginmanager.get_plugin("lfplugin")
        for nodeid in self.failed if last_failed is not None else ():
            last_failed.pytest_runtest_logreport(report=rerun_report(nodeid))
        if not self.session.is_worker:
            # Where no folder is private, none was shared.
            with contextlib.suppress(NotPrivateError):
                shutil.rmtree(shared_folder(self.session.run), ignore_errors=True)


def data_checks(item: pytest.Item) -> tuple[Check, ...]:
    """Return all data checks on the module, the class and the function, in the order of the source. Raises SpecError."""
    checks: list[Check] = []
    for mark in marks_of(item, "data_check"):
        if mark.kwargs or not mark.args:
            raise SpecError(
                "@pytest.mark.data_check takes checks by position: write for example data_check(expect_no_missing_values('label'))"
            )
        for check in mark.args:
            if not isinstance(check, Check):
                raise SpecError(
                    f"@pytest.mark.data_check has {check!r:.100}, which is not a check: call one of "
                    "pytest_crucible.datasets.checks, such as expect_no_missing_values('label')"
                )
            _refuse_left_out(check, item.config.pluginmanager)
            checks.append(check)
    return tuple(checks)


def _refuse_left_out(check: Check, plugins: pytest.PytestPluginManager) -> None:
    """Raise SpecError for a check, or a part of one, of a feature that is left out."""
    for feature, (_, names) in load_rows("checks"):
        name = check.call.partition("(")[0]
        if name in names and plugins.is_blocked(feature.plugin_name):
            raise SpecError(left_out_sentence(name, feature))
    for child in check.children:
        _refuse_left_out(child, plugins)


def open_checks(session: CrucibleSession) -> CheckItems:
    """Return the data checks of a session. Workers of xdist share their findings."""
    return CheckItems(session, DataChecks(shared_folder(session.run) if session.is_worker else None))
