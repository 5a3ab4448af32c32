"""One statistic of one metric (a mean, a rate, a count, a quantile): how it is estimated and how it is bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from pytest_crucible import stats
from pytest_crucible.analyse.scores import Floats
from pytest_crucible.records import Interval, Kind, MetricFacts, Reading, Target

NO_QUANTILE_BOUND = "none for a quantile of grouped samples"
NumericKind = Literal["binary", "ordinal", "bounded", "count", "positive", "unbounded"]
Clusters = npt.NDArray[np.int64]

RELATIONS: dict[str, Callable[[Any, float], Any]] = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
    "==": np.equal,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of the values of a metric. Repeats are averaged inside the sample before it is asked."""

    label: str
    kind: Kind
    low: float
    high: float
    quantile: float | None = None
    relation: str | None = None
    threshold: float = 0.0
    total: bool = False
    """A count: the mean, times the number of samples."""

    def prepare(self, values: Floats) -> Floats:
        """Values as they are, or whether each satisfies the condition of a rate."""
        if self.relation is None:
            return values
        return np.asarray(RELATIONS[self.relation](values, self.threshold), dtype=np.float64)


def numeric(kind: Kind | None) -> NumericKind:
    """The kind as statistics know it. Text is never judged; nothing seen is as good as binary."""
    return "binary" if kind is None or kind == "text" else kind


def mean_of(facts: MetricFacts) -> Question:
    """The mean, which every metric is summarised by."""
    return Question(label="mean", kind=facts.kind or "binary", low=facts.low, high=facts.high)


def question_of(target: Target, facts: MetricFacts) -> Question:
    """The question that a target asks."""
    mean = mean_of(facts)
    if target.statistic == "quantile":
        share = target.quantile or 0.0
        return Question(label=f"p{share * 100:g}", kind=mean.kind, low=mean.low, high=mean.high, quantile=share)
    total = target.statistic == "count"
    if target.inner_relation is None:
        return Question(label=target.statistic, kind=mean.kind, low=mean.low, high=mean.high, total=total)
    return Question(
        label=f"{target.statistic} {target.inner_relation} {target.inner_value:g}",
        kind="binary",
        low=0.0,
        high=1.0,
        relation=target.inner_relation,
        threshold=target.inner_value or 0.0,
        total=total,
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with its two-sided interval, and how both were got."""

    value: float | None
    interval: Interval | None
    clusters: int | None
    method: str


def measure(question: Question, values: Floats, clusters: Clusters | None, *, level: float) -> Measured:
    """Estimate a statistic from one value a sample."""
    if not len(values):
        return Measured(None, None, None, "no data")
    prepared = question.prepare(values)
    if question.quantile is not None:
        if clusters is not None:  # order statistics take samples for independent
            return Measured(_quantile(prepared, question.quantile), None, None, NO_QUANTILE_BOUND)
        interval = stats.quantile_interval(prepared, question.quantile, level=level)
        return Measured(_quantile(prepared, question.quantile), interval, None, interval.method)
    bounds = (question.low, question.high)
    mean = stats.estimate(prepared, kind=numeric(question.kind), bounds=bounds, clusters=clusters, alpha=1 - level)
    scale = len(prepared) if question.total else 1
    return Measured(_times(mean.estimate, scale), _scaled(mean.interval, scale), mean.clusters, mean.method)


def read(question: Question, values: Floats, clusters: Clusters | None, *, alpha: float) -> tuple[Reading, str]:
    """The statistic with its one-sided bounds, and the method of these. Values may be infinite: lost ones at an extreme."""
    if not len(values):
        return Reading(value=None, lower=None, upper=None), "no data"
    prepared = question.prepare(values)
    if question.quantile is not None:
        return _read_quantile(prepared, question.quantile, alpha, grouped=clusters is not None)
    scale = len(prepared) if question.total else 1
    if not np.isfinite(prepared).all():
        return Reading(value=float(np.sum(prepared)), lower=None, upper=None), "unbounded"
    kind, bounds = numeric(question.kind), (question.low, question.high)
    if question.total and not prepared.any():  # nothing was counted: what is bounded is the share of samples that count
        kind, bounds = "binary", (0.0, 1.0)
    lower, upper = (
        stats.mean_bound(prepared, kind=kind, bounds=bounds, clusters=clusters, alpha=alpha, side=side)
        for side in ("lower", "upper")
    )
    value = float(np.mean(prepared)) * scale
    return Reading(value=value, lower=_times(lower.value, scale), upper=_times(upper.value, scale)), lower.method


def _read_quantile(values: Floats, share: float, alpha: float, *, grouped: bool) -> tuple[Reading, str]:
    if grouped:
        return Reading(value=_quantile(values, share), lower=None, upper=None), NO_QUANTILE_BOUND
    finite = np.nan_to_num(values)  # a lost value at infinity only needs its rank
    lower, upper = (stats.quantile_bound(finite, share, alpha=alpha, side=side) for side in ("lower", "upper"))
    return Reading(value=_quantile(values, share), lower=lower, upper=upper), "order statistics"


def _quantile(values: Floats, share: float) -> float:
    """An order statistic rather than an interpolation, so that lost values at infinity need no arithmetic."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def _scaled(interval: Interval | None, scale: int) -> Interval | None:
    if interval is None or scale == 1:
        return interval
    return Interval(low=interval.low * scale, high=interval.high * scale, level=interval.level, method=interval.method)


def _times(bound: float | None, scale: int) -> float | None:
    return None if bound is None else bound * scale
