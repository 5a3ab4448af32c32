"""The Antagonist's rules: each has conditions on a sample's values, and a severity if all of them hold.

[[antagonist.rules]]
name = "WEAK_ENTAILMENT"
severity = "MEDIUM"
when = ["entailment < 0.5"]
caused_by = ["CITATION_INVALID"]
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

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


# Thinker's thresholds. Chirality contains recall and conflict, so either one, if found, is the cause of a high value.
DEFAULT_RULES = read_rules(
    [
        {"name": "CITATION_INVALID", "severity": "HIGH", "when": ["citation_accuracy == 0"]},
        {"name": "POLARITY_CONTRADICTION", "severity": "MEDIUM", "when": ["chirality >= 0.55"]},
        {
            "name": "POLARITY_CONTRADICTION",
            "severity": "HIGH",
            "when": ["chirality >= 0.65", "citation_recall >= 0.2"],
            "caused_by": ["CITATION_INVALID", "POLARITY_CONFLICT"],
        },
        {"name": "POLARITY_CONFLICT", "severity": "HIGH", "when": ["polarity_conflict == 1"]},
        {
            "name": "WEAK_ENTAILMENT",
            "severity": "MEDIUM",
            "when": ["entailment < 0.5"],
            "caused_by": ["CITATION_INVALID"],
        },
    ]
)
