"""What the rules find in one sample, and flags over many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pytest_crucible.cns3.antagonist.rules import Rule, Severity

_ORDER = {severity: place for place, severity in enumerate(get_args(Severity))}


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that holds, with the values that it holds for."""

    name: str
    severity: Severity
    evidence: Mapping[str, float]
    caused_by: str | None = None
    """The finding that explains this one, which then does not count."""


def findings(values: Mapping[str, float], rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """All findings of a sample, one a name, the gravest first; those that count before those with a cause.

    >>> from pytest_crucible.cns3.antagonist.rules import DEFAULT_RULES
    >>> [(one.name, one.caused_by) for one in findings({"citation_accuracy": 0, "entailment": 0.1}, DEFAULT_RULES)]
    [('CITATION_INVALID', None), ('WEAK_ENTAILMENT', 'CITATION_INVALID')]
    """
    holding = [rule for rule in rules if all(one.holds(values) for one in rule.when)]
    found = {rule.name for rule in holding}
    gravest: dict[str, Finding] = {}
    for rule in sorted(holding, key=lambda rule: -_ORDER[rule.severity]):
        evidence = {one.value: values[one.value] for one in rule.when}
        cause = next((name for name in rule.caused_by if name in found and name != rule.name), None)
        gravest.setdefault(rule.name, Finding(rule.name, rule.severity, evidence, cause))
    return tuple(sorted(gravest.values(), key=lambda one: (one.caused_by is not None, -_ORDER[one.severity], one.name)))


def severity_counts(several: Iterable[Finding]) -> Mapping[Severity, int]:
    """How many findings that count there are of each severity."""
    counts: dict[Severity, int] = {"LOW": 0, "MEDIUM": 0, "HIGH": 0}
    for one in several:
        if one.caused_by is None:
            counts[one.severity] += 1
    return counts


def flags(samples: Iterable[tuple[str, Sequence[Finding]]]) -> Iterator[dict[str, Any]]:
    """One record for each sample that has findings: its id, the gravest severity that counts, and the findings."""
    for sample, several in samples:
        counted = [one.severity for one in several if one.caused_by is None]
        if several:
            yield {
                "sample": sample,
                "severity": max(counted, key=_ORDER.__getitem__, default=None),
                "findings": [
                    {
                        "name": one.name,
                        "severity": one.severity,
                        "evidence": dict(one.evidence),
                        "caused_by": one.caused_by,
                    }
                    for one in several
                ],
            }
