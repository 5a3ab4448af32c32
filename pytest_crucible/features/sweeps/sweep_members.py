"""The members of a sweep compared on the choosing half: ranks, differences from the winner, and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_crucible.analyse.analysis import AnalysisInputs, arm_scores, clusters_of, metric_facts
from pytest_crucible.analyse.conditional import have_other_samples
from pytest_crucible.analyse.many_arms import ArmResult, ManyArms, RankedScores, compare_many_arms, rank_scores
from pytest_crucible.analyse.scores import Scores
from pytest_crucible.analyse.statistics import SampleAttributes
from pytest_crucible.analyse.stopping import keep_samples
from pytest_crucible.features.sweeps.records import ChoosingHalf, Sweep
from pytest_crucible.features.sweeps.setting_means import SettingMeans, compare_settings
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats.interval import Interval, NotEnoughData

SEARCHED = "a search proposes settings by the scores of earlier ones, so that its trials are not a sample of settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMembers:
    """The members of a family and the effects of their settings, by the metric that chose."""

    members: ManyArms
    settings: SettingMeans


def choosing_inputs(half: ChoosingHalf, order: Sequence[int]) -> AnalysisInputs:
    """Return the replies of a choosing half, each member's up to the look that dropped it. `order` is the look order.

    Replies to later samples were in flight then: fast ones are among them.
    """
    replies = half.replies
    return AnalysisInputs(
        plan=replies.plan,
        answers=tuple(
            keep_samples(
                answers,
                order[: half.looked_at(arm.name)],
                samples=len(replies.groups),
                repeats=replies.plan.draws(number).size,
            )
            for number, (arm, answers) in enumerate(zip(replies.plan.arms, replies.answers, strict=True))
        ),
        groups=replies.groups,
        finished=True,
        known_kinds=replies.known_kinds,
    )


def compare_members(half: ChoosingHalf, order: Sequence[int], sweep: Sweep, *, alpha: float) -> SweepMembers | None:
    """Return the members on the samples up to the look that dropped them; None if no member has a value.

    `order` is the look order. All ranks together hold with 1 - alpha: half of alpha is for the ranks of the members that were
    not dropped, and half for the claims about dropped ones, in equal parts for each planned look. If the winner was chosen by
    the samples that judge it, each mean has the interval that holds for all members at once, as in the verdicts.
    """
    inputs = choosing_inputs(half, order)
    facts = metric_facts(inputs).get(sweep.by)
    if facts is None or facts.kind == "text":
        return None
    names = [arm.name for arm in half.replies.plan.arms]
    scores = {name: arm_scores(facts, inputs, number) for number, name in enumerate(names)}
    attributes = SampleAttributes(clusters_of(half.replies.groups), random_factors=half.replies.plan.random_factors)
    dropped = [name for name in names if any(name not in look.remaining for look in half.looks)]
    share = alpha / 2 / len(sweep.looks) if dropped else 0.0
    drops = _compare_at_drops(facts, half, order, scores, attributes, share) if dropped else {}
    table = compare_many_arms(
        facts,
        list(scores.items()),
        attributes,
        alpha=alpha,
        mean_alpha=alpha if sweep.confirm else alpha / len(sweep.members),
        dropped={name: _better_than(name, drops) for name in dropped},
        rank_alpha=alpha / 2 if dropped else alpha,
        not_ranked=SEARCHED if sweep.trials else "",
    )
    # Settings are compared on the samples of all members, as ranks are.
    unlike = table.reason if have_other_samples(facts, list(scores.values())) else ""
    if sweep.trials or unlike:
        return SweepMembers(members=table, settings=SettingMeans(metric=facts.name, reason=unlike or SEARCHED))
    return SweepMembers(
        members=table
        if table.reason
        else replace(table, arms=tuple(_describe_dropped(result, drops, sweep.drop) for result in table.arms)),
        settings=compare_settings(
            facts,
            np.column_stack([arm_scores.values for arm_scores in scores.values()]),
            [member.settings for member in sweep.members],
            attributes.clusters,
            alpha=alpha,
            dropped=[name in dropped for name in names],
        ),
    )


@dataclass(frozen=True, slots=True)
class _Drop:
    """A dropped member at the look that dropped it."""

    better: tuple[str, ...]
    """The members that are proven better."""
    difference: float | None
    """From the winner."""
    interval: Interval | None


def _compare_at_drops(
    facts: MetricFacts,
    half: ChoosingHalf,
    order: Sequence[int],
    scores: Mapping[str, Scores],
    attributes: SampleAttributes,
    alpha: float,
) -> dict[str, _Drop]:
    live, drops = list(scores), {}
    for look in half.looks:
        leaving = [name for name in live if name not in look.remaining]
        if leaving:
            looked_at = np.zeros(len(half.replies.groups), dtype=bool)
            looked_at[list(order[: look.samples])] = True
            chosen = [scores[name] for name in live]
            try:
                ranked = rank_scores(facts, chosen, attributes, alpha=alpha, inside=looked_at)
            except NotEnoughData:
                ranked = None
            if ranked is not None:
                drops.update({name: _describe_drop(ranked, live, name, half.winner, alpha) for name in leaving})
        live = [name for name in live if name in look.remaining]
    return drops


def _describe_drop(ranked: RankedScores, live: Sequence[str], name: str, winner: str, alpha: float) -> _Drop:
    place, p_better = live.index(name), ranked.ranks.p_adjusted[:, live.index(name)]
    better = tuple(other for other, p_value in zip(live, p_better, strict=True) if p_value <= alpha)
    if winner not in live:
        return _Drop(better, None, None)
    best = live.index(winner)
    difference = float(ranked.ranks.comparisons.differences[place, best])
    return _Drop(better, difference, ranked.intervals.interval(place, best))


def _better_than(name: str, drops: Mapping[str, _Drop]) -> frozenset[str]:
    """Return the members that are better than a dropped one, if all claims are true: also those better than these."""
    better: set[str] = set()
    waiting = [name]
    while waiting:
        drop = drops.get(waiting.pop())
        new = set(drop.better) - better if drop else set()
        better |= new
        waiting += new
    return frozenset(better)


def _describe_dropped(result: ArmResult, drops: Mapping[str, _Drop], rule: str) -> ArmResult:
    """Return a dropped member's result with its difference.

    To drop it by proof claimed that it is not needed among those that may be the best, which is less than a rank: where no rank
    is excluded, a range that begins at 1 would seem to deny the drop.
    """
    drop = drops.get(result.arm)
    if drop is None:
        return result
    ranks = None if rule == "proven" and not drop.better else result.ranks
    return replace(result, ranks=ranks, difference=drop.difference, difference_interval=drop.interval)
