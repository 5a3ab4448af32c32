"""The grammar of quality targets: `[statistic(]metric[)] relation value`.

accuracy >= 0.80                    the mean
rate(entailment >= 0.75) >= 0.45    the share of samples for which something holds
count(high_flags) == 0              the sum over samples
p95(latency_s) <= 2                 a quantile
accuracy[v1] >= 0.70                a metric of one member of an ensemble
"""

from __future__ import annotations

import re
from typing import cast

from pytest_crucible.errors import SpecError
from pytest_crucible.records import Decision, Target

_NAME = r"(?P<metric>[A-Za-z_][\w.\-]*(?:\[[^\[\]]+\])?)"
_RELATION = r"(?:>=|<=|==|>|<)"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_INNER = rf"(?:\s*(?P<inner_relation>{_RELATION})\s*(?P<inner_value>{_NUMBER}))?"
_TARGET = re.compile(
    rf"\s*(?:(?P<statistic>mean|rate|count|p(?P<percent>\d+(?:\.\d+)?))\(\s*)?{_NAME}{_INNER}\s*(?P<close>\))?"
    rf"\s*(?P<relation>{_RELATION})\s*(?P<value>{_NUMBER})\s*"
)
_EXAMPLE = "write a metric, one of >=, <=, >, <, == and a number, for example 'accuracy >= 0.80'"


def parse_target(text: str, *, decide: Decision = "point") -> Target:
    """Parse one target.

    Raises SpecError, with what was written and an example, for anything outside the grammar.

    >>> parse_target("rate(entailment >= 0.75) >= 0.45").inner_value
    0.75
    """
    match = _TARGET.fullmatch(text) if isinstance(text, str) else None
    if match is None or bool(match["statistic"]) != bool(match["close"]):
        raise SpecError(f"target {text!r} cannot be read: {_EXAMPLE}")
    statistic = "quantile" if match["percent"] else match["statistic"] or "mean"
    if (match["inner_relation"] is not None) != (statistic == "rate") and statistic != "count":
        raise SpecError(
            f"target {text!r} cannot be read: a condition belongs in rate(...), as in 'rate(score >= 0.75) >= 0.45'"
        )
    quantile = float(match["percent"]) / 100 if match["percent"] else None
    if quantile is not None and not 0 < quantile < 1:
        raise SpecError(
            f"target {text!r} asks for p{match['percent']}: write a percentage between 0 and 100, as in 'p95(latency_s) <= 2'"
        )
    inner = match["inner_value"]
    return Target(
        text=" ".join(text.split()),
        statistic=statistic,  # type: ignore[arg-type]  # the grammar has no other one
        metric=match["metric"],
        relation=match["relation"],  # type: ignore[arg-type]  # likewise
        value=float(match["value"]),
        quantile=quantile,
        inner_relation=match["inner_relation"],  # type: ignore[arg-type]  # likewise
        inner_value=None if inner is None else float(inner),
        decide=checked_decision(text, decide),
    )


def checked_decision(text: str, decide: str) -> Decision:
    if decide not in ("point", "bound"):
        raise SpecError(
            f"target {text!r} has decide={decide!r}: write 'point' (the estimate decides) or 'bound' (proof decides)"
        )
    return cast(Decision, decide)
