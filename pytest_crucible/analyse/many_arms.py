"""Three arms or more by the mean of one metric: estimates, possible ranks, and differences from the best arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.conditional import have_other_samples
from pytest_crucible.analyse.scores import Flags, Floats, Scores
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, mean_of
from pytest_crucible.analyse.targets import estimate
from pytest_crucible.measures.statistic import GEOMETRIC_MEANS
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats.arrays import is_finite_range
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity

# Two arms are compared; ranks say more only from three on.
FEWEST_ARMS = 3
Arms = Sequence[tuple[str, Scores]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmResult:
    """The result of one of many arms: its mean, its possible ranks and its difference from the best."""

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
    """The level at which all ranks hold together, and all differences."""
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
    """Why arms are not ranked; empty if they are."""

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
    mean_alpha: float | None = None,
    dropped: Mapping[str, frozenset[str]] = MappingProxyType({}),
    rank_alpha: float | None = None,
    not_ranked: str = "",
) -> ManyArms:
    """Return the arms by their means of a metric; `arms` are names with scores.

    Each mean has an interval of level 1 - `mean_alpha`, by default 1 - alpha. Ranks and differences are of the samples that all
    arms scored. A rank is excluded only where that holds whatever the lost samples are. Arms without any score are not ranked
    and may have every rank. `dropped` arms were not run to the end; they come with the arms that are proven better, by a part of
    alpha of which `rank_alpha` is left. `not_ranked` is a reason of the caller's to rank none.
    """
    ranked = [k for k, (name, scores) in enumerate(arms) if scores.seen.any() and name not in dropped]
    chosen = [arms[k][1] for k in ranked]
    table = ManyArms(
        metric=facts.name,
        direction=facts.direction,
        arms=tuple(
            _estimate(facts, name, scores, attributes, alpha if mean_alpha is None else mean_alpha)
            for name, scores in arms
        ),
        level=1 - alpha,
        n=int(common_samples(chosen).sum()),
        incomplete=int(_incomplete(chosen).sum()),
        by_ratio=is_by_ratio(facts),
    )
    reason = not_ranked or _why_not_ranked(facts, attributes, chosen)
    if reason:
        return replace(table, reason=reason)
    try:
        ranks = rank_scores(facts, chosen, attributes, alpha=alpha if rank_alpha is None else rank_alpha)
    except NotEnoughData as refusal:
        return replace(table, reason=str(refusal))
    return _with_ranks(table, ranked, ranks, dropped)


@dataclass(frozen=True, slots=True)
class RankedScores:
    """Ranks of arms with the intervals of their differences."""

    ranks: stats.ArmRanks
    intervals: stats.PairwiseIntervals


def rank_scores(
    facts: MetricFacts,
    chosen: Sequence[Scores],
    attributes: SampleAttributes,
    *,
    alpha: float,
    inside: Flags | None = None,
) -> RankedScores | None:
    """Return the ranks of arms on the samples `inside` that all of them scored; None for one arm. Raises NotEnoughData.

    Amounts with a 0 have no ranks: ratios of geometric means do not exist, and other means would answer another question.
    """
    if len(chosen) < 2:
        return None
    everything = np.ones(len(chosen[0].values), dtype=bool) if inside is None else inside
    by_ratio = is_by_ratio(facts)
    common = common_samples(chosen) & everything
    zeros = sum(int(np.count_nonzero(scores.values[common] <= 0)) for scores in chosen) if by_ratio else 0
    if zeros:
        raise NotEnoughData(
            f"{quantity(zeros, 'value')} {'is' if zeros == 1 else 'are'} 0, and a {GEOMETRIC_MEANS} needs values above 0"
        )
    values, lowest, highest = _signed_values(facts, chosen, by_ratio)
    lost, whole = None, _applicable(chosen) & everything
    if (_incomplete(chosen) & everything).any():
        lost = stats.LostValues(lowest=lowest[whole], highest=highest[whole], clusters=attributes.clusters_at(whole))
    ranks = stats.rank_arms(values[common], clusters=attributes.clusters_at(common), lost=lost, level=1 - alpha)
    limits = (facts.low, facts.high)
    bounds = limits if is_finite_range(limits) and not by_ratio else None
    return RankedScores(ranks, stats.pairwise_intervals(ranks.comparisons, level=1 - alpha, bounds=bounds))


def _estimate(facts: MetricFacts, name: str, scores: Scores, attributes: SampleAttributes, alpha: float) -> ArmResult:
    mean = estimate(mean_of(facts), [ScoredMetric(facts, scores)], name, attributes, level=1 - alpha)
    return ArmResult(arm=name, value=mean.value, interval=mean.interval, n=mean.n, lost=mean.lost)


def _why_not_ranked(facts: MetricFacts, attributes: SampleAttributes, chosen: Sequence[Scores]) -> str:
    if attributes.look_alpha is not None:
        return "the run may stop at any look, and ranks hold at one only"
    if attributes.random_factors:
        return f"ranks would not count the noise of {' and '.join(attributes.random_factors)}"
    if not chosen:
        return "no arm has scores"
    if have_other_samples(facts, chosen):
        return f"{facts.name} applies to some replies only, so that the arms' means are of other samples"
    if np.isinf([scores.values[common_samples(chosen)] for scores in chosen]).any():
        return "some values are infinite"
    return ""


def _with_ranks(
    table: ManyArms,
    ranked: Sequence[int],
    ranking: RankedScores | None,
    dropped: Mapping[str, frozenset[str]],
) -> ManyArms:
    results = [replace(result, ranks=(1 + len(dropped.get(result.arm, ())), len(table.arms))) for result in table.arms]
    best = int(np.argmax(ranking.ranks.comparisons.means)) if ranking else 0
    for place, number in enumerate(ranked):
        name = table.arms[number].arm
        # An arm that is not ranked may be better, unless it is proven worse.
        unranked = len(table.arms) - len(ranked) - sum(name in better for better in dropped.values())
        results[number] = _with_rank(table.arms[number], ranking, place, best, unranked)
    comparisons = ranking.ranks.comparisons if ranking else None
    return replace(
        table,
        arms=tuple(_settle_the_best(results)),
        clusters=comparisons.clusters if comparisons else None,
        draws=comparisons.draws if comparisons else None,
        best=table.arms[ranked[best]].arm,
    )


def _settle_the_best(results: Sequence[ArmResult]) -> Sequence[ArmResult]:
    """Return the results, with rank 1 for an arm that is the only one that may be the best."""
    may_be = [result for result in results if result.ranks is not None and result.ranks[0] == 1]
    return [replace(result, ranks=(1, 1)) if may_be == [result] else result for result in results]


def _with_rank(result: ArmResult, ranking: RankedScores | None, place: int, best: int, unranked: int) -> ArmResult:
    if ranking is None:
        return replace(result, rank=1, ranks=(1, 1 + unranked), difference=0.0)
    rank = ranking.ranks.ranks[place]
    return replace(
        result,
        rank=rank.rank,
        ranks=(rank.best, rank.worst + unranked),
        difference=float(ranking.ranks.comparisons.differences[place, best]),
        difference_interval=None if place == best else ranking.intervals.interval(place, best),
        p_worse=ranking.ranks.p_worse[place],
    )


def _signed_values(facts: MetricFacts, chosen: Sequence[Scores], by_ratio: bool) -> tuple[Floats, Floats, Floats]:
    """Return samples x arms values, and the same with the lost ones at their worst and best; higher is better."""
    values, low, high = (
        np.stack([getattr(scores, name) for scores in chosen], axis=1) for name in ("values", "low", "high")
    )
    if by_ratio:
        with np.errstate(divide="ignore", invalid="ignore"):
            values, low, high = np.log(values), np.log(low), np.log(high)
    return (values, low, high) if facts.direction == "higher" else (-values, -high, -low)


def is_by_ratio(facts: MetricFacts) -> bool:
    """Return whether the arms are compared by ratios of geometric means, as two arms are."""
    return facts.kind == "positive"


def common_samples(chosen: Sequence[Scores]) -> Flags:
    """Return the samples that all arms scored."""
    return np.asarray(np.all([scores.seen for scores in chosen], axis=0))


def _applicable(chosen: Sequence[Scores]) -> Flags:
    return np.asarray(~np.any([scores.inapplicable for scores in chosen], axis=0))


def _incomplete(chosen: Sequence[Scores]) -> Flags:
    """Return the samples that some arm lost, where the metric applies in all arms."""
    return np.asarray(np.any([scores.lost for scores in chosen], axis=0) & _applicable(chosen))
