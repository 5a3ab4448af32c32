"""Decides by one metric which replies have passed, and how far two replies are apart."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.records import MetricFacts
from pytest_crucible.records.errors import SpecError

_LIMITED = re.compile(r"(?P<metric>.+?)\s*(?P<relation>>=|<=|==|>|<)\s*(?P<limit>[-+.\w]+)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A metric, and the values of it with which a reply passes."""

    metric: str
    relation: str
    limit: float
    best: float
    """The best possible value, which a gold answer has; infinite or NaN if the metric declares none."""
    worst: float
    """The value of a reply that failed before it could be scored."""

    @property
    def text(self) -> str:
        """The criterion as `--on` takes it."""
        return f"{self.metric} {self.relation} {self.limit:g}"

    def passes(self, value: float) -> bool:
        """Return whether a reply with this value has passed."""
        return _COMPARE[self.relation](value, self.limit)

    def gap(self, chosen: float, rejected: float) -> float:
        """Return the difference by which the chosen reply is better, in the metric's direction. NaN if a value is unknown."""
        difference = chosen - rejected
        return -difference if self.relation in ("<", "<=") else difference


def parse_on(text: str) -> tuple[str, str, float | None]:
    """Return metric, relation and limit of `--on`, such as `accuracy` or `entailment >= 0.75`. Raises SpecError.

    >>> parse_on("entailment >= 0.75"), parse_on("accuracy")
    (('entailment', '>=', 0.75), ('accuracy', '', None))
    """
    match = _LIMITED.fullmatch(text.strip())
    if match is None:
        return text.strip(), "", None
    try:
        limit = float(match["limit"])
    except ValueError:
        raise SpecError(
            f"--on={text!r} cannot be read: write a metric and where it passes, such as --on 'entailment >= 0.75'"
        ) from None
    return match["metric"], match["relation"], limit


def make_criterion(on: str, facts: MetricFacts, *, is_binary: bool) -> Criterion:
    """Return the criterion of `--on` for a metric. Raises SpecError for a score without a limit and without finite bounds.

    True passes (false, where lower is better). A score passes in the better half of its range.
    """
    metric, relation, limit = parse_on(on)
    low, high = (0.0, 1.0) if is_binary else (facts.low, facts.high)
    is_lower = facts.direction == "lower" if not relation else relation in ("<", "<=")
    best, worst = (low, high) if is_lower else (high, low)
    if limit is None:
        if not (math.isfinite(low) and math.isfinite(high)):
            raise SpecError(
                f"metric {metric!r} has scores without declared bounds: write where a reply passes, such as "
                f"--on '{metric} {'<=' if is_lower else '>='} 0.5'"
            )
        relation, limit = ("<=" if is_lower else ">="), (low + high) / 2
        # A score in the very middle is neither good nor bad: it fails.
        relation = relation if is_binary else relation[0]
    return Criterion(metric, relation, limit, best, worst)
