"""The decision that a sample expects, and metrics that are about samples with one decision, or with another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Keys of an `expected` that has several, by which the expected decision is found.
_LABELS = ("label", "decision", "answer")


@dataclass(frozen=True, slots=True)
class AppliesTo:
    """The samples that a metric is about: those that expect a decision, or those that expect another one."""

    decision: str
    is_expected: bool


def applies(condition: AppliesTo | None, expected: Any) -> bool:
    """Return whether a metric with this condition is about a sample.

    >>> [applies(AppliesTo("approve", is_expected), {"label": "Approve"}) for is_expected in (True, False)]
    [True, False]
    """
    if condition is None:
        return True
    return same_decision(expected_decision(expected), condition.decision) == condition.is_expected


def expected_decision(expected: Any) -> Any:
    """Return the decision that a sample expects: its `expected`, or its label where that has several keys.

    >>> expected_decision({"label": "approve", "sex": "male"}), expected_decision("deny")
    ('approve', 'deny')
    """
    if not isinstance(expected, Mapping):
        return expected
    return next((expected[key] for key in _LABELS if key in expected), None)


def same_decision(found: Any, wanted: Any) -> bool:
    """Return whether two decisions are the same, capitals and spaces aside; None is no decision."""
    return found is not None and wanted is not None and plain_decision(found) == plain_decision(wanted)


def plain_decision(value: Any) -> str:
    """Return a decision in the form in which decisions are compared: without outer blanks and capitals.

    >>> plain_decision(" Approve")
    'approve'
    """
    return str(value).strip().casefold()
