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
from pytest_crucible.records import MetricFacts
from pytest_crucible.stats.arrays import is_finite_range
from pytest_crucible.stats.interval import NotEnoughData

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
