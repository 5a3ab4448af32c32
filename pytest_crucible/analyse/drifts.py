"""A baseline that was asked anew against its own stored answers: has the server changed, and not the adapter?"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_crucible.analyse.analysis import Given, clusters_of, metric_facts
from pytest_crucible.analyse.comparisons import compare
from pytest_crucible.analyse.scores import scores
from pytest_crucible.records import Answers, Comparison, Contrast, Drift


def drifts(given: Given, number: int, then: Answers, run: str, *, alpha: float) -> tuple[Drift, ...]:
    """On each metric on which the arm of that number is compared with: today's answers against those of `run`.

    Their p-values are adjusted over the session, by the gate.
    """
    name = given.plan.arms[number].name
    found = _comparisons(given, number, then, alpha=alpha)
    return tuple(Drift(arm=name, run=run, alpha=alpha, comparison=one) for one in found)


def _comparisons(given: Given, number: int, then: Answers, *, alpha: float) -> Iterator[Comparison]:
    arm, today, facts = given.plan.arms[number], given.answers[number], metric_facts(given)
    size = {"samples": len(given.groups), "epochs": given.plan.epochs}
    asked = dict.fromkeys(one.metric for one in given.plan.contrasts if one.baseline == arm.name)
    for name in asked:
        if name in today.scores and name in then.scores:
            pair = (scores(facts[name], today, **size), scores(facts[name], then, **size))
            contrast, clusters = Contrast(metric=name, baseline="stored"), clusters_of(given.groups)
            yield compare(contrast, facts[name], arm.name, pair, clusters, alpha=alpha, questions=len(asked))
