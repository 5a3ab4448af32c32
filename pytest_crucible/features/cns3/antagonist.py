"""The Antagonist: rules that flag samples worth a second look. A rule has conditions on a sample's values, and a severity.

[[antagonist.rules]]
name = "WEAK_ENTAILMENT"
severity = "MEDIUM"
when = ["entailment < 0.5"]
caused_by = ["CITATION_INVALID"]
"""

from __future__ import annotations

import json
import operator
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args

from pytest_crucible.features.cns3.claims import beta1
from pytest_crucible.features.cns3.judgement import Judgement
from pytest_crucible.metrics.definition import NotApplicable
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError

Severity = Literal["LOW", "MEDIUM", "HIGH"]
# Values that conditions may use. A value that does not apply, or was not measured, fulfils no condition.
VALUES = (
    "citation_accuracy", "citation_precision", "citation_recall", "citation_exists", "entailment", "entailment_overlap",
    "similarity", "chirality", "polarity_conflict", "beta1", "flaws",
)  # fmt: skip
_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq,
}  # fmt: skip
# Two-character signs come first: `>` alone would match the beginning of `>=`.
_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|==|>|<)\s*([-+]?\d+(?:\.\d+)?)\s*")
_KEYS = ("name", "severity", "when", "caused_by")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition `value relation number`."""

    value: str
    relation: str
    number: float

    def holds(self, values: Mapping[str, float]) -> bool:
        return self.value in values and _RELATIONS[self.relation](values[self.value], self.number)


@dataclass(frozen=True, slots=True)
class Rule:
    """If all conditions hold, the sample has a finding with this name and severity.

    Of several rules with one name that hold, the most severe counts. A finding whose cause (a name in `caused_by`) holds as
    well is recorded but not counted: one defect is one finding.
    """

    name: str
    severity: Severity
    when: tuple[Condition, ...]
    caused_by: tuple[str, ...] = ()


def read_rules(tables: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """Read the rules of a configuration. Raises SpecError, with the number of the rule, for an invalid one.

    >>> read_rules([{"name": "INVENTED", "severity": "HIGH", "when": ["citation_exists < 1"]}])[0].when[0].number
    1.0
    """
    rules = tuple(_rule(number, table) for number, table in enumerate(tables, start=1))
    names = {rule.name for rule in rules}
    for number, rule in enumerate(rules, start=1):
        if missing := set(rule.caused_by) - names:
            raise SpecError(
                f"rule {number} of the antagonist is caused by {min(missing)!r}, which is not the name of a rule: "
                f"write one of {', '.join(sorted(names))}"
            )
    return rules


def _rule(number: int, table: Mapping[str, Any]) -> Rule:
    unknown = sorted(set(table) - set(_KEYS))
    if unknown or not {"name", "severity", "when"} <= set(table):
        problem = f"has {unknown[0]!r}" if unknown else f"has only {', '.join(sorted(table))}"
        raise SpecError(f"rule {number} of the antagonist {problem}: write name, severity, when and, if any, caused_by")
    if table["severity"] not in get_args(Severity):
        raise SpecError(
            f"rule {number} of the antagonist has severity {table['severity']!r}: write one of {', '.join(get_args(Severity))}"
        )
    conditions = tuple(_condition(number, condition) for condition in table["when"])
    if not conditions:
        raise SpecError(f'rule {number} of the antagonist has no condition: write when = ["entailment < 0.5"]')
    return Rule(str(table["name"]), table["severity"], conditions, tuple(table.get("caused_by", ())))


def _condition(number: int, text: Any) -> Condition:
    match = _CONDITION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise SpecError(
            f"rule {number} of the antagonist has the condition {text!r}: write one like 'entailment < 0.5'"
        )
    if match[1] not in VALUES:
        raise SpecError(
            f"rule {number} of the antagonist uses the unknown value {match[1]!r}; expected one of {', '.join(VALUES)}"
        )
    return Condition(match[1], match[2], float(match[3]))


DEFAULT_RULES = read_rules(
    tomllib.loads((Path(__file__).parent / "frozen" / "rules.toml").read_text(encoding="utf-8"))["antagonist"]["rules"]
)
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

    >>> [(finding.name, finding.caused_by) for finding in findings({"citation_accuracy": 0, "entailment": 0.1}, DEFAULT_RULES)]
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
    order = sorted(
        (finding.caused_by is not None, -_ORDER[finding.severity], name) for name, finding in gravest.items()
    )
    return tuple(gravest[name] for _, _, name in order)


def severity_counts(several: Iterable[Finding]) -> Mapping[Severity, int]:
    """Return the number of findings of each severity, without those that have a cause."""
    counts = Counter(finding.severity for finding in several if finding.caused_by is None)
    return {severity: counts[severity] for severity in get_args(Severity)}


# The text metric that stores findings.
METRIC = "antagonist_findings"
# The key in a sample's metadata with the names that a person found in its (recorded) reply.
GOLD = "gold_flags"


@dataclass(frozen=True, slots=True)
class Flagged:
    """Findings of the rules in one reply, and those of a person."""

    findings: tuple[Finding, ...]
    gold: frozenset[str] | None = None
    """None if no person has checked the reply."""


def to_text(findings: Sequence[Finding], metadata: Mapping[str, Any]) -> str:
    """Return findings as JSON. Raises ValueError for gold flags that are not a list of names.

    >>> to_text([], {"gold_flags": ["CITATION_INVALID"]})
    '{"findings": [], "gold": ["CITATION_INVALID"]}'
    """
    gold = metadata.get(GOLD)
    if gold is not None and not (isinstance(gold, list | tuple) and all(isinstance(finding, str) for finding in gold)):
        raise ValueError(f"{GOLD} is {gold!r}; expected a list of findings' names, empty if there are none")
    return json.dumps(
        {"findings": [asdict(finding) for finding in findings], "gold": None if gold is None else sorted(gold)}
    )


def from_text(text: str) -> Flagged:
    """Return the findings that `to_text` wrote."""
    plain = json.loads(text)
    gold = None if plain["gold"] is None else frozenset(plain["gold"])
    return Flagged(tuple(Finding(**finding) for finding in plain["findings"]), gold)


_rules: tuple[Rule, ...] = DEFAULT_RULES


def use_rules(rules: tuple[Rule, ...]) -> Callable[[], object]:
    """Set the rules of the session; return a function that restores the former ones."""
    global _rules
    before, _rules = _rules, rules
    return lambda: use_rules(before)


def rules() -> tuple[Rule, ...]:
    return _rules


def measured_values(judgement: Judgement) -> Mapping[str, float]:
    """Return the values that apply and were measured."""
    citations, extraction = judgement.citations, judgement.extraction
    values: Mapping[str, Any] = {
        "citation_accuracy": judgement.citation_accuracy,
        "citation_precision": citations.precision,
        "citation_recall": citations.recall,
        "citation_exists": citations.exists,
        "entailment": judgement.entailment,
        "entailment_overlap": judgement.entailment_overlap,
        "similarity": judgement.similarity,
        "chirality": judgement.chirality_value,
        "polarity_conflict": judgement.conflict,
        "beta1": beta1(extraction.claims, extraction.relations),
        "flaws": len(extraction.flaws),
    }
    return {name: float(value) for name, value in values.items() if not isinstance(value, NotApplicable | None)}


def findings_in(judgement: Judgement) -> tuple[Finding, ...]:
    """Return the findings of the session's rules in a reply."""
    return judgement.remember("findings", lambda: findings(measured_values(judgement), _rules))
