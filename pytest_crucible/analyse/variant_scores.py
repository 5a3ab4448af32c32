"""Scores of the terms by which targets and comparisons name a variant of the samples: `exact_match[she]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_crucible.analyse.scores import Scores
from pytest_crucible.records import MetricFacts, Plan
from pytest_crucible.records.variant_views import term_facts

OfArms = tuple[Scores, ...]
ViewScores = Callable[[MetricFacts, Scores, Scores], Scores]
VIEWS: Mapping[str, ViewScores] = {"": lambda facts, originals, twins: twins}
"""The scores of each view, by the facts of its metric and the scores on the samples as they are and on their twins."""


def score_terms(
    plan: Plan,
    facts: Mapping[str, MetricFacts],
    originals: Mapping[str, OfArms],
    twins: Callable[[MetricFacts, str], OfArms],
) -> tuple[dict[str, MetricFacts], dict[str, OfArms]]:
    """Return facts and scores of the plan's terms, by the name of the term.

    `facts` and `originals` are those of the metrics; `twins` returns the scores of a metric on a variant. A term whose metric
    has no scores is left out.
    """
    terms = [term for term in plan.variant_terms if term.metric in originals]
    resolved = {term.facts.name: term_facts(term.facts.name, term.view, facts[term.metric]) for term in terms}
    scored = {
        term.facts.name: tuple(
            VIEWS[term.view](facts[term.metric], *pair)
            for pair in zip(originals[term.metric], twins(facts[term.metric], term.variant), strict=True)
        )
        for term in terms
    }
    return resolved, scored
