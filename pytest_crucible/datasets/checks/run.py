"""Runs checks on the samples of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_crucible.datasets.checks.check import Check, CheckContext, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.combined import bind_files
from pytest_crucible.datasets.packed import pack_if_many
from pytest_crucible.records import Sample
from pytest_crucible.records.data_checks import CheckResult
from pytest_crucible.records.errors import DatasetError
from pytest_crucible.stats import holm

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
    return number_subjects(run_checks(samples, checks, context or CheckContext()))


def run_checks(samples: Sequence[Sample], checks: Sequence[Check], context: CheckContext) -> list[CheckResult]:
    """Return the result of each check; equal checks have equal subjects."""
    findings = search_samples(samples, checks, context)
    return [check.decide(samples, finding) for check, finding in zip(checks, findings, strict=True)]


def search_samples(samples: Sequence[Sample], checks: Sequence[Check], context: CheckContext) -> list[Finding | str]:
    """Return the finding of each check, with p-values adjusted over all of them, or its error."""
    table = Table(samples, names=[name for check in checks for name in check.columns])
    return adjust_findings([bind_files(check, context).search(table) for check in checks])


def adjust_findings(findings: Sequence[Finding | str]) -> list[Finding | str]:
    """Return the findings with their p-values adjusted over all of them (Holm)."""
    p_values = [None if isinstance(finding, str) else finding.p_value for finding in findings]
    size = sum(p is not None for p in p_values)
    if size < 2:
        return list(findings)
    return [
        finding.adjust(p, size) if not isinstance(finding, str) and finding.adjust and p is not None else finding
        for finding, p in zip(findings, holm(p_values), strict=True)
    ]


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
