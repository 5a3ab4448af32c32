"""Settings of a sweep by one metric: from its members' values to marginal means and differences."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Floats
from pytest_crucible.analyse.statistics import Clusters
from pytest_crucible.records import MetricFacts, Note, Row, Statement, Table
from pytest_crucible.records.statistics import interval_ends
from pytest_crucible.stats.arrays import is_finite_range
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import p_value, quantity, with_interval

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
    p_head = _p_head(means)
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


def _p_head(means: stats.MarginalMeans) -> str:
    return f"p (Holm, {len(means.differences)})" if len(means.differences) > 1 else "p"


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
