"""Variability of paired differences in a stored experiment, from which the size of the next one is planned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pytest_crucible.analyse.analysis import AnalysisInputs, metric_facts
from pytest_crucible.analyse.scores import Floats, scores
from pytest_crucible.records import Kind, PairVariability


def pair_variabilities(given: AnalysisInputs) -> Iterator[PairVariability]:
    """Return the variability of candidate and each baseline, on every numeric metric that both have on two samples or more."""
    sizes = [given.plan.draws(number).size for number in range(len(given.plan.arms))]
    for name, facts in metric_facts(given).items():
        arms = [
            scores(facts, arm, samples=len(given.groups), repeats=repeats) if name in arm.scores else None
            for arm, repeats in zip(given.answers, sizes, strict=True)
        ]
        for arm, theirs in zip(given.plan.arms[1:], arms[1:], strict=True):
            ours = arms[0]
            if ours is None or theirs is None or facts.kind == "text":
                continue
            differences = (ours.values - theirs.values)[ours.seen & theirs.seen]
            if len(differences) > 1:
                yield PairVariability(
                    nodeid=given.plan.nodeid,
                    metric=name,
                    baseline=arm.name,
                    pairs=len(differences),
                    deviation=float(differences.std(ddof=1)),
                    discordance=_discordance(facts.kind, differences, max(sizes)),
                    span=facts.largest_change,
                )


def _discordance(kind: Kind | None, differences: Floats, repeats: int) -> float | None:
    """Return the discordance of a yes-or-no metric with one repeat; the mean of several repeats is a score."""
    return float(np.mean(differences != 0)) if kind == "binary" and repeats == 1 else None
