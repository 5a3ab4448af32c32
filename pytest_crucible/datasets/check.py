"""Checks of a dataset: an expectation on a table of samples, and its decided result."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.datasets.columns import Column, MissingColumn, Positions, Table
from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Sample
from pytest_crucible.records.datasets import MOST_IDS, CheckResult, CheckState, Severity
from pytest_crucible.records.errors import CrucibleError, DatasetError
from pytest_crucible.stats import holm
from pytest_crucible.stats.interval import NotEnoughData

# Failing samples that a message names; the JSON report has all.
SHOWN_IDS = 5

NOTHING = np.array([], dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of an expectation on a table, before it is decided."""

    message: str
    """What is expected, for a row check: `between 0 and 99`. What was found, for a column check: `the mean is 41.2`."""
    fault: str = ""
    """Describes the failing values, such as `repeat another text`; by default, that they are not `message`."""
    failing: Positions = field(default_factory=lambda: NOTHING)
    """Positions of samples that do not meet the expectation."""
    checked: int = 0
    missing: int = 0
    is_met: bool = True
    """Of a column check. Of a row check it follows from `failing`."""
    is_open: bool = False
    """Neither met nor missed is proven: the check warns, even if its severity is an error."""
    p_value: float | None = None
    """The p-value of a check that fails only on proof; all of these in a dataset share one error rate (Holm)."""
    adjust: Callable[[float, int], Finding] | None = None
    """Returns the finding for an adjusted p-value in a family of this size."""


Finder = Callable[[Table], Finding]


def value_finder(
    column: str, find_bad: Callable[[Column], npt.ArrayLike], message: str, fault: str = ""
) -> Callable[[Table], Finding]:
    """Return a finder of bad values of a column: `find_bad` returns for each that is not missing whether it is one."""

    def find(table: Table) -> Finding:
        values = table.column(column)
        is_bad = np.asarray(find_bad(values), dtype=bool)
        failing = values.present[is_bad]
        return Finding(message=message, fault=fault, failing=failing, checked=len(is_bad), missing=values.missing)

    return find


def column_finding(values: Column, message: str, *, is_met: bool, expected: str = "") -> Finding:
    """Return the finding on all values that are not missing; the message of one that is not met says what is expected."""
    text = message if is_met or not expected else f"{message}, and {expected}"
    return Finding(message=text, checked=len(values.present), missing=values.missing, is_met=is_met)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """The places of the files that a check reads."""

    folder: Path = Path()
    """The folder that relative paths count from."""
    cache: Path | None = None
    """The folder in which checks keep their comparisons; None to compare again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An expectation with its arguments."""

    subject: str
    call: str
    find: Finder = field(repr=False)
    columns: tuple[str, ...] = ()
    severity: Severity = "error"
    mostly: float | None = None
    """The least share of values that have to meet it; None for a check on the whole column."""
    children: tuple[Check, ...] = ()
    """The checks that are combined into this one."""
    files: tuple[str, ...] = ()
    """Further files that the check reads; relative paths count from `folder`."""
    drops: bool = False
    """Failing samples are left out of the experiment instead of failing the check."""
    identity: str = ""
    """The function and all its arguments, unshortened: equal for equal checks."""
    shares_alpha: bool = False
    """Its findings have p-values, which are adjusted over all such checks of a dataset."""
    bind: Callable[[CheckContext], Finder] | None = field(default=None, repr=False)
    """Of a check that reads files: returns its finder for the places of files."""

    def run(self, table: Table) -> CheckResult:
        """Return the result on a table."""
        return self.decide(table.samples, self.search(table))

    def search(self, table: Table) -> Finding | str:
        """Return the finding, or the error: an error fails the check and does not end the session."""
        try:
            return self.find(table)
        except (MissingColumn, CrucibleError, NotEnoughData) as error:
            return str(error)
        # A schema or a tokenizer is code of the suite, which may raise anything.
        except Exception as error:
            return f"it raised {type(error).__name__}: {error}"

    def decide(self, samples: Sequence[Sample], finding: Finding | str) -> CheckResult:
        """Return the result of a finding on some samples."""
        if isinstance(finding, str):
            return self._result("failed", finding)
        if self.mostly is None:
            met, message = finding.is_met, finding.message
        else:
            met, message = _decide_rows(finding, self.mostly)
        ids = heapq.nsmallest(MOST_IDS, (samples[at].id for at in finding.failing.tolist()))
        if ids:
            message += f": {ids_text(ids, len(finding.failing))}"
        if finding.missing:
            message += f"; {finding.missing:,} missing {'value was' if finding.missing == 1 else 'values were'} skipped"
        state: CheckState = "failed" if not met else "warned" if finding.is_open else "passed"
        counts = {"checked": finding.checked, "missing": finding.missing, "failing": len(finding.failing)}
        return self._result(state, message, samples=tuple(ids), **counts)

    def _result(self, state: CheckState, message: str, **facts: Any) -> CheckResult:
        if state == "failed" and self.severity == "warn":
            state = "warned"
        return CheckResult(subject=self.subject, call=self.call, state=state, message=message, **facts)


def _decide_rows(finding: Finding, mostly: float) -> tuple[bool, str]:
    """Return whether enough values meet an expectation, and a sentence."""
    checked, failing = finding.checked, len(finding.failing)
    if not checked:
        return False, "no sample has a value"
    # 19 of 20 meet 0.95 also where the quotient comes out a last digit short.
    met = checked - failing >= mostly * checked - 1e-9
    if not failing:
        return met, f"all {checked:,} are {finding.message}"
    fault = finding.fault or f"are not {finding.message}"
    allowance = "" if mostly == 1 else f", and {1 - mostly:.4g} may" if met else f", and at most {1 - mostly:.4g} may"
    return met, f"{failing:,} of {checked:,} {fault} ({failing / checked:.4g}{allowance})"


def ids_text(ids: Sequence[str], total: int) -> str:
    """Return the first ids, and how many follow.

    >>> ids_text(["a", "b"], 2), ids_text(list("abcdefgh"), 8)
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    listed_ids = ", ".join(ids[:SHOWN_IDS])
    return listed_ids if total <= SHOWN_IDS else f"{listed_ids} and {total - SHOWN_IDS:,} more"


Search = Callable[[Sequence[Sample], Sequence[Check], CheckContext], list[Finding | str]]
"""A function that returns the finding of each check, as `search_samples` does."""


def check_samples(
    samples: Sequence[Sample], checks: Sequence[Check], *, context: CheckContext | None = None
) -> tuple[CheckResult, ...]:
    """Return the result of each check. Relative paths of files count from the working directory, unless `context` has
    another folder.

    >>> from pytest_crucible.datasets.checks import expect_no_missing_values
    >>> [result] = check_samples([Sample(id="a", input="2 + 2")], [expect_no_missing_values("expected")])
    >>> result.state, result.message
    ('failed', "no sample has a field 'expected'; the fields are id, input")
    """
    findings = search_samples(samples, checks, context or CheckContext())
    return number_subjects([check.decide(samples, finding) for check, finding in zip(checks, findings, strict=True)])


def search_samples(samples: Sequence[Sample], checks: Sequence[Check], context: CheckContext) -> list[Finding | str]:
    """Return the finding of each check, with p-values adjusted over all of them, or its error."""
    table = Table(samples, names=[name for check in checks for name in check.columns])
    findings = [bind_files(check, context).search(table) for check in checks]
    p_values = [None if isinstance(finding, str) else finding.p_value for finding in findings]
    size = sum(p is not None for p in p_values)
    if size < 2:
        return findings
    return [
        finding.adjust(p, size) if not isinstance(finding, str) and finding.adjust and p is not None else finding
        for finding, p in zip(findings, holm(p_values), strict=True)
    ]


def bind_files(check: Check, context: CheckContext) -> Check:
    """Return the check with the paths of its files."""
    return check if check.bind is None else replace(check, find=check.bind(context), bind=None)


def drop_failing(
    samples: Sequence[Sample], checks: Sequence[Check], context: CheckContext, search: Search = search_samples
) -> tuple[Sequence[Sample], list[CheckResult]]:
    """Return the samples that meet checks with `drop=True`, and the results. Raises DatasetError if no sample is left."""
    results = []
    for check in checks:
        [finding] = search(samples, [check], context)
        result = check.decide(samples, finding)
        if not isinstance(finding, str) and len(finding.failing):
            failing = set(finding.failing.tolist())
            samples = pack_if_many(sample for position, sample in enumerate(samples) if position not in failing)
            result = replace(result, state="passed", message=f"{result.message}; they are not sent")
        results.append(result)
        if not samples:
            raise DatasetError(
                f"{check.call}: all samples match, so that none is left; remove drop=True, or choose other samples"
            )
    return samples, results


def number_subjects(results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results with different subjects: of two equal ones, the second ends in ` #2`."""
    counts: dict[str, int] = {}
    numbered = []
    for result in results:
        counts[result.subject] = number = counts.get(result.subject, 0) + 1
        numbered.append(result if number == 1 else replace(result, subject=f"{result.subject} #{number}"))
    return tuple(numbered)


def finding_to_plain(finding: Finding | str) -> Any:
    """Return a finding, adjusted already, or an error as a JSON value."""
    if isinstance(finding, str):
        return finding
    # Numbers and truth values of numpy have no JSON form.
    counts = {name: int(getattr(finding, name)) for name in ("checked", "missing")}
    flags = {name: bool(getattr(finding, name)) for name in ("is_met", "is_open")}
    return {"message": finding.message, "fault": finding.fault, **counts, **flags, "failing": finding.failing.tolist()}


def finding_from_plain(plain: Any) -> Finding | str:
    """Return the finding or the error of a JSON value.

    >>> finding_from_plain(finding_to_plain(Finding(message="unique", failing=np.array([3])))).failing.tolist()
    [3]
    """
    if isinstance(plain, str):
        return plain
    return Finding(**plain | {"failing": np.array(plain["failing"], dtype=np.intp)})
