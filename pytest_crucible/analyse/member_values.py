"""The choosing half of a sweep for the analysis: the values by which its members compete, and their estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.analyse.analysis import AnalysisInputs, arm_scores, clusters_of, metric_facts
from pytest_crucible.analyse.conditional import have_other_samples
from pytest_crucible.analyse.scores import Floats
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.records import MetricFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValues:
    """The values of one metric in several arms, on some samples."""

    facts: MetricFacts
    values: Floats
    """Samples x arms, each the mean over the sample's replies; NaN if it is lost or does not apply."""
    clusters: Clusters | None
    """A number for the group of each sample; None if samples are independent."""
    is_conditional: bool = False
    """Each arm's mean is of the samples that the metric applies to in this arm, so that no pairs compare them."""

    @property
    def scores(self) -> Floats:
        """The values in the direction in which higher is better."""
        return self.values if self.facts.direction == "higher" else -self.values


def member_values(
    inputs: AnalysisInputs, metric: str, arms: Iterable[int], positions: Sequence[int]
) -> MemberValues | None:
    """Return the metric's values on the samples at some positions; None if no arm has any."""
    facts = metric_facts(inputs).get(metric)
    if facts is None or facts.kind == "text" or not any(metric in arm.scores for arm in inputs.answers):
        return None
    chosen = np.asarray(positions, dtype=np.int64)
    scored = [arm_scores(facts, inputs, arm) for arm in arms]
    clusters = clusters_of(inputs.groups)
    return MemberValues(
        facts=facts,
        values=np.column_stack([scores.values[chosen] for scores in scored]),
        is_conditional=have_other_samples(facts, scored),
        clusters=None if clusters is None else clusters[chosen],
    )
