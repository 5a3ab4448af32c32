"""Findings of the rules in one sample, and flag records over many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pytest_crucible.presets.cns3.antagonist.rules import Rule, Severity

_ORDER = {severity: place for place, severity in enumerate(get_args(Severity))}


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds, with the values that it holds for."""

    name: str
    severity: Severity
    evidence: Mapping[str, float]
    caused_by: str | None = None
    """The finding that explains this one, which then does not count."""


def findings(values: Mapping[str, float], rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Return a sample's findings, one per name: those that count before those with a cause, the most severe first.

    >>> from pytest_crucible.presets.cns3.antagonist.rules import DEFAULT_RULES
    >>> [(one.name, one.caused_by) for one in findings({"citation_accuracy": 0, "entailment": 0.1}, DEFAULT_RULES)]
    [('CITATION_INVALID', None), ('WEAK_ENTAILMENT', 'CITATION_INVALID')]
    """
    holding = [rule for rule in rules if all(condition.holds(values) for condition in rule.when)]
    names = {rule.name for rule in holding}
    gravest: dict[str, Finding] = {}
    for rule in sorted(holding, key=lambda rule: -_ORDER[rule.severity]):
        evidence = {condition.value: values[condition.value] for condition in rule.when}
        # A rule cannot explain itself, or its finding would never count.
        cause = next((name for name in rule.caused_by if name in names and name != rule.name), None)
        # The most severe rule of a name comes first, so later ones with that name change nothing.
        gravest.setdefault(rule.name, Finding(rule.name, rule.severity, evidence, cause))
    return tuple(
        sorted(
            gravest.values(),
            key=lambda finding: (finding.caused_by is not None, -_ORDER[finding.severity], finding.name),
        )
    )


def severity_counts(several: Iterable[Finding]) -> Mapping[Severity, int]:
    """Return the number of findings of each severity, without those that have a cause."""
    counts: dict[Severity, int] = {"LOW": 0, "MEDIUM": 0, "HIGH": 0}
    for finding in several:
        if finding.caused_by is None:
            counts[finding.severity] += 1
    return counts


def flag_records(samples: Iterable[tuple[str, Sequence[Finding]]]) -> Iterator[dict[str, Any]]:
    """Yield one record for each sample with findings: its id, the highest severity that counts, and the findings."""
    for sample, several in samples:
        counted = [finding.severity for finding in several if finding.caused_by is None]
        if several:
            yield {
                "sample": sample,
                "severity": max(counted, key=_ORDER.__getitem__, default=None),
                "findings": [
                    {
                        "name": finding.name,
                        "severity": finding.severity,
                        "evidence": dict(finding.evidence),
                        "caused_by": finding.caused_by,
                    }
                    for finding in several
                ],
            }
