"""How far the members of an ensemble differ, by each metric that says right or wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.questions import Clusters
from pytest_crucible.analyse.scores import Floats, repeats
from pytest_crucible.metrics.members import of_member
from pytest_crucible.records import Answers, Arm, Diversity, MemberPair, MetricFacts, Share

NONE = Share(value=None, interval=None, note="no sample was answered by all")


def diversity(
    arm: Arm,
    answers: Answers,
    facts: Mapping[str, MetricFacts],
    clusters: Clusters | None,
    *,
    alpha: float,
    samples: int,
    epochs: int,
) -> Iterator[Diversity]:
    """One record for each metric of right and wrong that was asked of at least two members."""
    if not arm.members:
        return

    def right(name: str) -> Floats:
        scored = repeats(facts[name], answers, samples=samples, epochs=epochs)
        return scored if facts[name].direction == "higher" else 1 - scored

    for metric, known in facts.items():
        names = [name for name in arm.members if of_member(metric, name) in answers.scores]
        if known.kind == "binary" and not known.of_ensemble and len(names) > 1:
            scored = np.stack([right(of_member(metric, name)) for name in names])
            found = stats.member_diversity(scored, right(metric), clusters=clusters, alpha=alpha)
            yield _named(found, arm.name, metric, names)


def _named(found: stats.Diversity, arm: str, metric: str, names: list[str]) -> Diversity:
    return Diversity(
        arm=arm,
        metric=metric,
        n=found.n,
        accuracies={name: _share(one) for name, one in zip(names, found.members, strict=False)},
        best=None if found.best is None else names[found.best],
        oracle=_share(found.oracle),
        ensemble=_share(found.combined),
        pairs=tuple(
            MemberPair(
                first=names[one.first],
                second=names[one.second],
                n=one.n,
                disagreement=_share(one.disagreement),
                double_fault=_share(one.double_fault),
                error_correlation=Share(
                    value=one.correlation.value, interval=one.correlation.interval, note=one.correlation.note
                ),
            )
            for one in found.pairs
        ),
        note=found.note,
    )


def _share(one: stats.Estimate | None) -> Share:
    return NONE if one is None else Share(value=one.estimate, interval=one.interval, note=one.note)
