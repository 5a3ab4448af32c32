"""Data checks of the experiments: run once a run while it is planned, and reported as tests before their experiment."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_crucible.datasets.checks.check import Check, CheckContext
from pytest_crucible.datasets.checks.run import number_subjects, run_checks
from pytest_crucible.records import Dataset
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.serialize import from_plain, to_plain
from pytest_crucible.session.verdict_reports import VerdictRepr
from pytest_crucible.training.locks import file_lock

# The place in memory of a function or object, which differs from process to process.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass
class DataChecks:
    """Runs the checks of a session. Equal checks on one dataset run once, in whichever worker comes first."""

    folder: Path | None = None
    """Where the workers of a run share their results; None for a session of one process."""
    results: dict[str, tuple[CheckResult, ...]] = field(default_factory=dict)
    """Nodeid of an experiment -> the results of its checks."""
    _known: dict[str, CheckResult] = field(default_factory=dict)

    def run(
        self,
        nodeid: str,
        checks: Sequence[Check],
        dataset: Dataset,
        context: CheckContext,
        before: Sequence[CheckResult] = (),
    ) -> tuple[CheckResult, ...]:
        """Return the results of an experiment's checks, after those that were run `before`."""
        family = "".join(check.identity for check in checks if check.shares_alpha)
        keys = [
            _key(nodeid, number, check, dataset, f"{context.folder}{family if check.shares_alpha else ''}")
            for number, check in enumerate(checks)
        ]
        results = self._share(keys, lambda: run_checks(dataset.samples, checks, context))
        self.results[nodeid] = number_subjects([*before, *results])
        return self.results[nodeid]

    def _share(self, keys: Sequence[str], compute: Callable[[], Sequence[CheckResult]]) -> list[CheckResult]:
        if self.folder is None:
            return self._look_up(keys, compute)
        with file_lock(self.folder / "lock", wait=lambda: None):
            path = self.folder / "results.json"
            if path.exists():
                stored = json.loads(path.read_text(encoding="utf-8"))
                self._known |= {key: from_plain(CheckResult, plain) for key, plain in stored.items()}
            results = self._look_up(keys, compute)
            path.write_text(json.dumps(to_plain(self._known)), encoding="utf-8")
        return results

    def _look_up(self, keys: Sequence[str], compute: Callable[[], Sequence[CheckResult]]) -> list[CheckResult]:
        if any(key not in self._known for key in keys):
            self._known |= dict(zip(keys, compute(), strict=True))
        return [self._known[key] for key in keys]


def open_data_checks(config: pytest.Config, run: str) -> DataChecks:
    """Return the data checks of a session, or of a worker of it."""
    return DataChecks(shared_folder(run) if hasattr(config, "workerinput") else None)


def shared_folder(run: str) -> Path:
    """Return the folder in which the workers of a run share the results of checks. They are on one machine."""
    return Path(tempfile.gettempdir()) / f"crucible-checks-{run}"


def remove_shared(run: str) -> None:
    """Remove the folder of a run, if it has one."""
    shutil.rmtree(shared_folder(run), ignore_errors=True)


def _key(nodeid: str, number: int, check: Check, dataset: Dataset, base: str) -> str:
    identity = f"{check.identity}|{check.severity}"
    # Two functions may look alike: then the check is that of one test only.
    where = f"{nodeid}|{number}" if _ADDRESS.search(identity) else base if check.files else ""
    return hashlib.sha256(f"{dataset.sha256}|{_ADDRESS.sub('', identity)}|{where}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Place:
    """The test function that checks belong to."""

    nodeid: str
    path: str
    line: int


def check_reports(place: Place, results: Sequence[CheckResult]) -> Iterator[pytest.TestReport]:
    """Yield setup, call and teardown reports of each check, so that every plugin that reads test reports sees it."""
    for result in results:
        for when in ("setup", "call", "teardown"):
            yield _report(place, result, when)


def _report(place: Place, result: CheckResult, when: Any) -> pytest.TestReport:
    failed = when == "call" and result.state == "failed"
    return pytest.TestReport(
        nodeid=f"{place.nodeid}::{result.subject}",
        location=(place.path, place.line, f"{place.nodeid.partition('::')[2]} {result.subject}"),
        keywords={"crucible": 1},
        outcome="failed" if failed else "passed",
        longrepr=cast(Any, VerdictRepr(result.sentence)) if failed else None,
        when=when,
        user_properties=_properties(result) if when == "call" else [],
    )


def _properties(result: CheckResult) -> list[tuple[str, object]]:
    numbers: Mapping[str, object] = {
        "state": result.state, "sentence": result.sentence, "checked": result.checked, "missing": result.missing,
        "failing": result.failing,
    }  # fmt: skip
    return [(f"crucible_{name}", value) for name, value in numbers.items()]
