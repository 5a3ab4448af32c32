"""Views of a metric on a variant of the samples: `exact_match[she]` is the metric on the twins, and has the empty view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_crucible.records.plan import MetricFacts

ViewFacts = Callable[[MetricFacts], MetricFacts]
VIEWS: Mapping[str, ViewFacts] = {"": lambda facts: facts}
"""The facts of each view by those of its metric."""


def term_facts(name: str, view: str, facts: MetricFacts) -> MetricFacts:
    """Return the facts of a term by those of its metric. An inferred kind is not known before the first scores."""
    return replace(VIEWS[view](facts), name=name)
