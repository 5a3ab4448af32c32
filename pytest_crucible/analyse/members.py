"""The members of a sweep: the values by which they compete, and the winner's estimate, corrected for its choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.analyse.analysis import AnalysisInputs, arm_scores, clusters_of, metric_facts
from pytest_crucible.analyse.conditional import have_other_samples
from pytest_crucible.analyse.scores import Flags, Floats
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats import WinnerResult, estimate, winner_from_values
from pytest_crucible.stats.interval import Interval, NotEnoughData


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


Positions = npt.NDArray[np.intp]
# The level of all intervals in reports.
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedMean:
    """The mean of the best of several members."""

    arm: int
    """The winner's number."""
    value: float
    interval: Interval
    naive: float
    """The mean, as if the winner had been the only member."""


def correct_winner(compared: MemberValues) -> CorrectedMean | None:
    """Return the winner's mean, corrected for its choice; None if the data allow no correction.

    NaN are values of members that a look has dropped, or lost ones. Members that were dropped earlier were far behind: the
    luck is among those that went on.
    """
    if compared.is_conditional:
        return None
    scored = ~np.isnan(compared.values)
    counts = scored.sum(axis=0)
    live = np.flatnonzero(counts > counts.max() / 2)
    try:
        if live.size > 1:
            winner = _winner(compared, live, np.asarray(scored[:, live].all(axis=1)))
            return _mean(compared, int(live[winner.arm]), winner.estimate, winner.interval)
        return _last_one(compared, scored, int(live[0]))
    except NotEnoughData:
        return None


def _last_one(compared: MemberValues, scored: Flags, arm: int) -> CorrectedMean | None:
    """Return the mean of the last member that was left. Only the samples of the look that dropped the others chose it."""
    counts = scored.sum(axis=0)
    rivals = np.flatnonzero(counts >= np.delete(counts, arm).max())
    chose = np.asarray(scored[:, rivals].all(axis=1))
    winner = _winner(compared, rivals, chose)
    if rivals[winner.arm] != arm:
        return None
    own = compared.scores[:, arm]
    bias = (winner.naive - winner.estimate) * chose.sum() / scored[:, arm].sum()
    # Simultaneous for all members, because the hybrid interval is of the samples that chose alone.
    alpha = (1 - LEVEL) / counts.size
    rows = scored[:, arm]
    clusters = None if compared.clusters is None else compared.clusters[rows]
    whole = estimate(own[rows], bounds=_bounds(compared), clusters=clusters, alpha=alpha)
    return None if whole.interval is None else _mean(compared, arm, float(own[rows].mean() - bias), whole.interval)


def _winner(compared: MemberValues, arms: Positions, rows: Flags) -> WinnerResult:
    clusters = None if compared.clusters is None else compared.clusters[rows]
    bounds = _bounds(compared)
    return winner_from_values(compared.scores[rows][:, arms], clusters=clusters, bounds=bounds, level=LEVEL)


def _bounds(compared: MemberValues) -> tuple[float, float] | None:
    facts = compared.facts
    ends = (facts.low, facts.high) if facts.direction == "higher" else (-facts.high, -facts.low)
    return ends if np.isfinite(ends).all() else None


def _mean(compared: MemberValues, arm: int, value: float, interval: Interval) -> CorrectedMean:
    """Return the corrected mean on the metric's own scale: where lower is better, signs were reversed before."""
    naive = float(np.nanmean(compared.values[:, arm]))
    if compared.facts.direction == "higher":
        return CorrectedMean(arm=arm, value=value, interval=interval, naive=naive)
    turned = Interval(low=-interval.high, high=-interval.low, level=interval.level, method=interval.method)
    return CorrectedMean(arm=arm, value=-value, interval=turned, naive=naive)
