"""Terms of targets and comparisons that name a variant of the samples: `exact_match[she]`.

A term is a metric of its own in the analysis. Its values are the metric's on the twins of that variant, or a view of them
and of the values on the samples as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_crucible.records import MetricFacts, VariantTerm
from pytest_crucible.records.variant_views import VIEWS, term_facts

_TERM = re.compile(r"(?P<metric>[^\[\]]+)\[(?P<variant>[^\[\]]+)\]")


def variant_terms(
    names: Iterable[str], metrics: Mapping[str, MetricFacts], variants: Sequence[str], *, open_metrics: bool
) -> tuple[VariantTerm, ...]:
    """Return the terms among the names of metrics that targets and comparisons use.

    With `open_metrics` the test scores by itself, and a metric that is not among `metrics` may be one of these.
    """
    terms = (read_term(name, metrics, variants, open_metrics=open_metrics) for name in dict.fromkeys(names))
    return tuple(term for term in terms if term is not None)


def read_term(
    name: str, metrics: Mapping[str, MetricFacts], variants: Sequence[str], *, open_metrics: bool
) -> VariantTerm | None:
    """Return a name as a term; None for a metric's own name, and for one that names no variant."""
    match = _TERM.fullmatch(name)
    if match is None or name in metrics or match["variant"] not in variants:
        return None
    metric, view = split_view(match["metric"], metrics)
    if metric not in metrics and not open_metrics:
        return None
    facts = metrics.get(metric, MetricFacts(name=metric))
    return VariantTerm(facts=term_facts(name, view, facts), metric=metric, view=view, variant=match["variant"])


def term_metric(name: str) -> str:
    """Return the metric of a term; a name that is not a term is a metric.

    >>> term_metric("passed[she]")
    'passed'
    """
    match = _TERM.fullmatch(name)
    return name if match is None else split_view(match["metric"], {})[0]


def split_view(term: str, metrics: Mapping[str, MetricFacts]) -> tuple[str, str]:
    """Return a metric and its view, which is empty where the term has none.

    >>> split_view("a.b", {"a.b": MetricFacts(name="a.b")})
    ('a.b', '')
    """
    metric, _, view = term.rpartition(".")
    return (metric, view) if metric and view in VIEWS and term not in metrics else (term, "")
