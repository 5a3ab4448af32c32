"""The members of a sweep compared on the choosing half: ranks, differences from the winner, and settings."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.analysis import AnalysisInputs, arm_scores, clusters_of, metric_facts
from pytest_crucible.analyse.conditional import have_other_samples
from pytest_crucible.analyse.many_arms import ArmResult, ManyArms, RankedScores, compare_many_arms, rank_scores
from pytest_crucible.analyse.scores import Floats, Scores
from pytest_crucible.analyse.statistics import Clusters, SampleAttributes
from pytest_crucible.analyse.stopping import keep_samples
from pytest_crucible.features.sweeps.records import ChoosingHalf, Sweep
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import MetricFacts, Note, Row, Statement, Table
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.stats.arrays import is_finite_range
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import p_value, quantity, with_interval

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


SEED = "seed"
SAMPLED_ONLY = ("at", "parameters", "variables")
"""First parts of keys that change how a trained model answers, but not its training: members that differ in these alone
share a training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingMeans:
    """The marginal means of each setting of a sweep by one metric. Differences are signed so that positive is better."""

    metric: str
    means: stats.MarginalMeans | None = None
    """None if no claim can be made."""
    reason: str = ""
    """Why no claim is made."""
    dropped: bool = False
    """Whether members were dropped by their scores: then the settings are compared among those that were left."""


def compare_settings(
    facts: MetricFacts,
    values: Floats,
    settings: Sequence[Mapping[str, Any]],
    clusters: Clusters | None = None,
    *,
    alpha: float,
    dropped: Sequence[bool] | None = None,
) -> SettingMeans:
    """Return the marginal means of samples x members values (NaN is lost) with these settings, by the dotted key of the adapter.

    Samples that some whole member lost are left out; members that are `dropped`, or have no value, are not whole.
    """
    columns = np.array(values, dtype=np.float64)
    if dropped is not None:
        columns[:, np.asarray(dropped, dtype=bool)] = np.nan
    whole = ~np.isnan(columns).all(axis=0)
    complete = ~np.isnan(columns[:, whole]).any(axis=1)
    try:
        means = stats.marginal_means(
            columns[complete],
            [{key: _hashable(value) for key, value in point.items()} for point in settings],
            seed=SEED,
            trainings=[training_label(point) for point in settings],
            clusters=None if clusters is None else clusters[complete],
            bounds=(facts.low, facts.high) if is_finite_range((facts.low, facts.high)) else None,
            level=1 - alpha,
        )
    except NotEnoughData as refusal:
        return SettingMeans(metric=facts.name, reason=str(refusal))
    signed = means if facts.direction == "higher" else replace(means, differences=tuple(map(_turn, means.differences)))
    return SettingMeans(metric=facts.name, means=signed, dropped=any(dropped or ()))


def training_label(settings: Mapping[str, Any]) -> Hashable:
    """Return a label that members share if their settings name one training.

    >>> training_label({"lora.rank": 8, "at": 30, "seed": 1})
    (('lora.rank', '8'), ('seed', '1'))
    """
    return tuple((key, _hashable(value)) for key, value in settings.items() if key.split(".")[0] not in SAMPLED_ONLY)


def _hashable(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _turn(pair: stats.LevelDifference) -> stats.LevelDifference:
    interval = replace(pair.interval, low=-pair.interval.high, high=-pair.interval.low)
    return replace(pair, difference=-pair.difference, interval=interval)


METHOD = Statement(
    text="Levels of a setting are compared over the combinations of the other settings in which both were run to the end, with "
    "equal weights; intervals count the trainings of each combination (Satterthwaite's degrees of freedom) and the samples"
)


def setting_tables(result: SettingMeans) -> tuple[Table, ...]:
    """Return the means of the levels, and their differences; nothing if no claim can be made."""
    means = result.means
    if means is None:
        return ()
    tables = (_means_table(result, means), _differences_table(result, means))
    return tuple(table for table in tables if table.rows)


def _means_table(result: SettingMeans, means: stats.MarginalMeans) -> Table:
    return Table(
        title=f"Settings by {result.metric}",
        heads=("setting", f"mean {result.metric} [{means.level * 100:g} %]", "trainings"),
        rows=tuple(
            Row(
                cells=(
                    f"{_name(mean.setting, means)} = {mean.level}",
                    with_interval(mean.mean, mean.interval),
                    f"{mean.trainings:,}",
                )
            )
            for mean in means.means
        ),
        numbers=("trainings",),
        note=_left_out(result, means),
    )


def _differences_table(result: SettingMeans, means: stats.MarginalMeans) -> Table:
    p_head = f"p (Holm, {len(means.differences)})" if len(means.differences) > 1 else "p"
    return Table(
        title=f"Differences between settings by {result.metric}",
        heads=("setting", f"difference in {result.metric} [{means.level * 100:g} %]", "trainings", p_head),
        rows=tuple(
            Row(
                cells=(
                    f"{_name(difference.setting, means)}: {difference.level} vs {difference.other}",
                    with_interval(difference.difference, difference.interval, sign=True),
                    f"{difference.trainings:,}",
                    p_value(difference.p_adjusted),
                )
            )
            for difference in means.differences
        ),
        numbers=("trainings", p_head),
        note="Intervals are unadjusted; p-values are adjusted for all differences in this table.",
    )


def setting_note(result: SettingMeans) -> Note:
    """Return the differences that are proven, or why no claim is made about settings."""
    means = result.means
    if means is None:
        return Note(text=f"settings by {result.metric}: no claim: {result.reason}", verbosity=1)
    if not means.differences:
        return Note(
            text=f"settings by {result.metric}: no claim: no two levels were run to the end beside the same other settings"
        )
    proven = [
        _claim(difference, _name(difference.setting, means))
        for difference in means.differences
        if difference.p_adjusted <= 1 - means.level
    ]
    text = "; ".join(proven) if proven else "no difference between levels is proven"
    return Note(text=f"settings by {result.metric}: {text}")


def setting_document(result: SettingMeans) -> dict[str, Any]:
    """Return the JSON of the settings."""
    means = result.means
    return {
        "metric": result.metric,
        "reason": result.reason,
        "n": means.n if means else None,
        "combinations": means.cells if means else None,
        "incomplete": means.incomplete if means else None,
        "means": [
            {
                "setting": mean.setting,
                "level": mean.level,
                "value": mean.mean,
                **interval_ends(mean.interval),
                "trainings": mean.trainings,
                "combinations": mean.cells,
            }
            for mean in (means.means if means else ())
        ],
        "differences": [
            {
                "setting": difference.setting,
                "level": difference.level,
                "other": difference.other,
                "difference": difference.difference,
                **interval_ends(difference.interval),
                "p_value": difference.p_value,
                "p_adjusted": difference.p_adjusted,
                "trainings": difference.trainings,
                "combinations": difference.cells,
            }
            for difference in (means.differences if means else ())
        ],
    }


def _name(setting: str, means: stats.MarginalMeans) -> str:
    """Return the last part of a dotted key, where that is unambiguous, as in the names of members."""
    keys = {mean.setting for mean in means.means} | {difference.setting for difference in means.differences}
    last = [key.rpartition(".")[2] for key in keys]
    short = setting.rpartition(".")[2]
    return short if last.count(short) == 1 else setting


def _left_out(result: SettingMeans, means: stats.MarginalMeans) -> str:
    """Return a sentence on the samples and trainings of the means, and on combinations that are left out."""
    units = f"Trainings and samples ({means.n:,}) both count in the intervals."
    if not means.incomplete:
        return units
    why = "a member was dropped by its scores" if result.dropped else "a member has no scores"
    left = f"{means.incomplete:,} of {quantity(means.cells, 'combination')} left out: {why}."
    without = (
        f" No mean of {', '.join(means.without_means)}: no combination has all levels." if means.without_means else ""
    )
    return f"{units} {left}{without}"


def _claim(difference: stats.LevelDifference, name: str) -> str:
    better, worse = (
        (difference.level, difference.other) if difference.difference > 0 else (difference.other, difference.level)
    )
    # The interval is turned with the levels, so that a better level is named first.
    sign = 1 if difference.difference > 0 else -1
    ends = sorted((sign * difference.interval.low, sign * difference.interval.high))
    interval = type(difference.interval)(
        low=ends[0], high=ends[1], level=difference.interval.level, method=difference.interval.method
    )
    return f"{name} = {better} is better than {worse}: {with_interval(abs(difference.difference), interval, sign=True)}"
