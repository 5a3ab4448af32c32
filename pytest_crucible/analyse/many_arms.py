"""Three arms or more by the mean of one metric: estimates, possible ranks, and differences from the best arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, mean_of
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.records import Interval, MetricFacts
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import is_finite_range

FEWEST_ARMS = 3
Arms = Sequence[tuple[str, Scores]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """One of many arms."""

    arm: str
    value: float | None
    interval: Interval | None
    n: int
    """The samples that the estimate is of."""
    lost: int
    rank: int | None = None
    """Its place by the mean over the common samples; None for an arm that is not ranked."""
    ranks: tuple[int, int] | None = None
    """The best and the worst rank that remain possible."""
    difference: float | None = None
    """From the arm with the best mean, at most 0; of amounts the logarithm of the ratio."""
    difference_interval: Interval | None = None
    p_worse: float | None = None
    """The adjusted p-value of "some other arm is better"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyArms:
    """All arms by one metric, in the order of the plan."""

    metric: str
    direction: str
    arms: tuple[ArmResult, ...]
    level: float
    """Of all ranks together, and of all differences together."""
    n: int
    """The samples that all ranked arms scored."""
    incomplete: int
    """The samples that some ranked arm lost."""
    clusters: int | None = None
    draws: int | None = None
    by_ratio: bool = False
    """The arms are compared by ratios of geometric means."""
    best: str | None = None
    """The arm with the best mean over the common samples; of equal ones, the first."""
    reason: str = ""
    """Why arms are not ranked; empty where they are."""

    @property
    def not_proven_worse(self) -> tuple[str, ...]:
        """The arms that may be the best."""
        return tuple(result.arm for result in self.arms if result.ranks is not None and result.ranks[0] == 1)


def compare_many_arms(
    facts: MetricFacts,
    arms: Arms,
    attributes: SampleAttributes,
    *,
    alpha: float,
    dropped: Mapping[str, bool] = MappingProxyType({}),
) -> ManyArms:
    """Return the arms by their means of a metric; `arms` are names with scores.

    Ranks and differences are of the samples that all arms scored. A rank is excluded only where that holds whatever the lost
    samples are. Arms without any score are not ranked and may have every rank, and so may `dropped` ones, which were not
    run to the end; those with the value True were proven worse than another arm before, and are not the best.
    """
    ranked = [k for k, (name, scores) in enumerate(arms) if scores.seen.any() and name not in dropped]
    chosen = [arms[k][1] for k in ranked]
    table = ManyArms(
        metric=facts.name,
        direction=facts.direction,
        arms=tuple(_estimate(facts, name, scores, attributes, alpha) for name, scores in arms),
        level=1 - alpha,
        n=int(_common(chosen).sum()),
        incomplete=int(_incomplete(chosen).sum()),
    )
    reason = _why_not_ranked(attributes, chosen)
    if reason:
        return replace(table, reason=reason)
    try:
        return _rank(table, facts, ranked, chosen, attributes, dropped)
    except NotEnoughData as refusal:
        return replace(table, reason=str(refusal))


def _estimate(facts: MetricFacts, name: str, scores: Scores, attributes: SampleAttributes, alpha: float) -> ArmResult:
    mean = estimate(mean_of(facts), [ScoredMetric(facts, scores)], name, attributes, level=1 - alpha)
    return ArmResult(arm=name, value=mean.value, interval=mean.interval, n=mean.n, lost=mean.lost)


def _why_not_ranked(attributes: SampleAttributes, chosen: Sequence[Scores]) -> str:
    if attributes.look_alpha is not None:
        return "the run may stop at any look, and ranks hold at one only"
    if attributes.random_factors:
        return f"ranks would not count the noise of {' and '.join(attributes.random_factors)}"
    if len(chosen) < 2:
        return "fewer than two arms have scores"
    if np.isinf([scores.values[_common(chosen)] for scores in chosen]).any():
        return "some values are infinite"
    return ""


def _rank(
    table: ManyArms,
    facts: MetricFacts,
    ranked: Sequence[int],
    chosen: Sequence[Scores],
    attributes: SampleAttributes,
    dropped: Mapping[str, bool],
) -> ManyArms:
    common, by_ratio = _common(chosen), _is_by_ratio(facts, chosen)
    values, lowest, highest = _signed_values(facts, chosen, by_ratio)
    lost = None
    if table.incomplete:
        whole = _applicable(chosen)
        lost = stats.LostValues(lowest=lowest[whole], highest=highest[whole], clusters=attributes.clusters_at(whole))
    ranks = stats.rank_arms(values[common], clusters=attributes.clusters_at(common), lost=lost, level=table.level)
    bounds = (facts.low, facts.high)
    intervals = stats.pairwise_intervals(
        ranks.comparisons,
        level=table.level,
        bounds=bounds if is_finite_range(bounds) and not by_ratio else None,
    )
    best = int(np.argmax(ranks.comparisons.means))
    unranked = len(table.arms) - len(ranked)
    results = [_unranked(result, len(table.arms), dropped) for result in table.arms]
    for place, number in enumerate(ranked):
        rank = ranks.ranks[place]
        low, high = float(intervals.low[place, best]), float(intervals.high[place, best])
        results[number] = replace(
            table.arms[number],
            rank=rank.rank,
            ranks=(rank.best, rank.worst + unranked),
            difference=float(ranks.comparisons.differences[place, best]),
            difference_interval=(
                Interval(low=low, high=high, level=table.level, method=intervals.method)
                if place != best and np.isfinite([low, high]).all()
                else None
            ),
            p_worse=ranks.p_worse[place],
        )
    return replace(
        table,
        arms=tuple(results),
        clusters=ranks.comparisons.clusters,
        draws=ranks.comparisons.draws,
        by_ratio=by_ratio,
        best=table.arms[ranked[best]].arm,
    )


def _unranked(result: ArmResult, arms: int, dropped: Mapping[str, bool]) -> ArmResult:
    return replace(result, ranks=(2 if dropped.get(result.arm) else 1, arms))


def _signed_values(facts: MetricFacts, chosen: Sequence[Scores], by_ratio: bool) -> tuple[Floats, Floats, Floats]:
    """Return samples x arms values, and the same with the lost ones at their worst and best; higher is better."""
    values, low, high = (
        np.stack([getattr(scores, name) for scores in chosen], axis=1) for name in ("values", "low", "high")
    )
    if by_ratio:
        with np.errstate(divide="ignore", invalid="ignore"):
            values, low, high = np.log(values), np.log(low), np.log(high)
    return (values, low, high) if facts.direction == "higher" else (-values, -high, -low)


def _is_by_ratio(facts: MetricFacts, chosen: Sequence[Scores]) -> bool:
    """Return whether amounts are compared by ratios, as in comparisons of two arms. A ratio to 0 does not exist."""
    common = _common(chosen)
    return facts.kind == "positive" and all(bool((scores.values[common] > 0).all()) for scores in chosen)


def _common(chosen: Sequence[Scores]) -> Flags:
    return np.asarray(np.all([scores.seen for scores in chosen], axis=0))


def _applicable(chosen: Sequence[Scores]) -> Flags:
    return np.asarray(~np.any([scores.inapplicable for scores in chosen], axis=0))


def _incomplete(chosen: Sequence[Scores]) -> Flags:
    """Return the samples that some arm lost, where the metric applies in all arms."""
    return np.asarray(np.any([scores.lost for scores in chosen], axis=0) & _applicable(chosen))
