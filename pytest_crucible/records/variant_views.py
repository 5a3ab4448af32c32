"""Views of a metric on a variant of the samples, compared with the original samples.

exact_match[she]             the metric on the twins
exact_match.drop[she]        the original samples minus the twins, signed so that positive is worse
exact_match.broken[she]      if the original sample is right: the share of the replies to its twins that are wrong
exact_match.broken_any[she]  likewise: whether any of these replies is wrong
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_crucible.records.measures import MetricFacts
from pytest_crucible.records.types import Kind

DROP, BROKEN, BROKEN_ANY = "drop", "broken", "broken_any"
ViewFacts = Callable[[MetricFacts, int], MetricFacts]
_RANGED = ("binary", "bounded")


def _drop(facts: MetricFacts, draws: int) -> MetricFacts:
    span = facts.high - facts.low if facts.kind in _RANGED else math.inf
    kind: Kind | None = facts.kind and ("bounded" if math.isfinite(span) else "unbounded")
    return replace(
        facts, kind=kind, direction="lower", low=-span, high=span, relevant=None, reach=None, of_ensemble=False
    )


def _broken_facts(facts: MetricFacts, draws: int) -> MetricFacts:
    return replace(
        facts,
        kind="binary" if draws == 1 else "bounded",
        direction="lower",
        low=0.0,
        high=1.0,
        relevant=None,
        # Of the samples that this arm's reply was right on.
        applies="reply",
        reach=None,
    )


VIEWS: Mapping[str, ViewFacts] = {
    "": lambda facts, draws: facts,
    DROP: _drop,
    BROKEN: _broken_facts,
    BROKEN_ANY: lambda facts, draws: _broken_facts(facts, 1),
}
"""The facts of each view by those of its metric and the number of variants that it is about. The empty one is the metric."""


def term_facts(name: str, view: str, facts: MetricFacts, draws: int = 1) -> MetricFacts:
    """Return the facts of a term by those of its metric. An inferred kind is not known before the first scores."""
    return replace(VIEWS[view](facts, draws), name=name)


def view_problem(view: str, facts: MetricFacts) -> str:
    """Return why a metric has no such view; empty if it has, or where its kind is not known yet."""
    if view in (BROKEN, BROKEN_ANY) and facts.kind not in (None, "binary"):
        return f"{view} needs a binary metric, and {facts.name!r} is {facts.kind}: write {facts.name}.{DROP}"
    return ""
