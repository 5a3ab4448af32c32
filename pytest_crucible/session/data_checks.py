"""Data checks of the experiments: run once a run while it is planned, and reported as tests before their experiment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

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
from pytest_crucible.records import Dataset, Sample
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.files import file_lock
from pytest_crucible.records.private_files import NotPrivateError, runtime_folder
from pytest_crucible.session.part_reports import part_id, part_location
from pytest_crucible.session.verdict_reports import VerdictRepr

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


def open_data_checks(config: pytest.Config, run: str) -> DataChecks:
    """Return the data checks of a session, or of a worker of it."""
    return DataChecks(shared_folder(run) if hasattr(config, "workerinput") else None)


def shared_folder(run: str) -> Path:
    """Return the folder in which the workers of a run share the results of checks. They are on one machine.

    Raises NotPrivateError.
    """
    return runtime_folder() / f"checks-{run}"


def remove_shared(run: str) -> None:
    """Remove the folder of a run, if it has one."""
    # Where no folder is private, none was shared.
    with contextlib.suppress(NotPrivateError):
        shutil.rmtree(shared_folder(run), ignore_errors=True)


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
    return [_report(place, result, when) for when in ("setup", "call", "teardown")]


def _report(place: Place, result: CheckResult, when: Any) -> pytest.TestReport:
    failed = when == "call" and result.state == "failed"
    return pytest.TestReport(
        nodeid=part_id(place.nodeid, result.subject),
        location=part_location(place.path, place.line, place.nodeid, result.subject),
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
