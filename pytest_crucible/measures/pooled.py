"""Rates that are pooled over texts: precision and recall of spans, and F1 of flagged texts.

Each is a ratio of two sums, such as the found over the annotated spans of all texts. Spans of one text are alike, so the text, or
its group, is the unit: the ratio is a clustered proportion, bounded by Korn & Graubard (1998), Surv. Methodol. 24:193, at the
effective number of spans. Two arms are compared by the linearised ratios (Cochran 1977, Sampling Techniques, 6.13), paired by unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from pytest_crucible import stats
from pytest_crucible.measures.auroc import expected_problem as expected_problem
from pytest_crucible.measures.row import (
    Clusters,
    Difference,
    End,
    Floats,
    Measured,
    Numbers,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)
from pytest_crucible.records import BoundedValue, Measure, MetricFacts
from pytest_crucible.records.datasets import label_number
from pytest_crucible.stats.interval import Interval

METHOD = "linearised ratio, paired"
# Two more texts, one in favour of each arm, for outcomes that did not occur.
_PSEUDO = 0.5


def prepare_counts(observations: Observations, end: End) -> Prepared:
    """Return part and whole of each text: the columns of the measure. A lost text has as many spans as the average text."""
    part, whole = (column.values.copy() for column in observations.columns)
    if end != "observed":
        missing = np.isnan(whole)
        spans = float(np.ceil(np.nanmean(whole))) if (~missing).any() else 1.0
        whole[missing], part[missing] = spans, spans if end == "high" else 0.0
    if not np.nansum(whole):
        return Prepared(values=np.array([]), problem="there are no spans to count")
    return Prepared(values=part, strata=whole, clusters=observations.clusters, bounds=(0.0, 1.0))


def flags_problem(measure: Measure, facts: Sequence[MetricFacts]) -> str:
    """Return why F1 cannot be computed of these metrics; empty if it can."""
    problems = (
        f"{metric.name!r} is not a yes-or-no metric: take one that is, such as f1(flagged)"
        for metric in facts
        if metric.kind not in (None, "binary")
    )
    return next(problems, "")


def prepare_f1(observations: Observations, end: End) -> Prepared:
    """Return twice the right flags, and these with the wrong and the missing ones: F1 is the ratio of their sums."""
    labels = [label_number(value) for value in observations.expected]
    if not labels or None in labels:
        return Prepared(values=np.array([]), problem="the samples have no labels")
    positive = np.array(labels, dtype=np.float64)
    column = observations.columns[0]
    flagged = column.values
    if end != "observed":
        # Lost flags are right where F1 is highest, and wrong where it is lowest.
        best = np.where(positive == 1, column.high, column.low)
        worst = np.where(positive == 1, column.low, column.high)
        flagged = best if end == "high" else worst
    right = 2 * flagged * positive
    whole = flagged + positive
    if not whole.sum():
        return Prepared(values=np.array([]), problem="there is neither an attack nor a flagged text")
    return Prepared(values=right, strata=whole, clusters=observations.clusters, bounds=(0.0, 1.0))


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return the ratio with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    values, shape = _expand(prepared)
    ratio = stats.estimate(values, **shape, alpha=1 - level)
    return Measured(_ratio(prepared), ratio.interval, counted_clusters(prepared.clusters), ratio.method)


def bound_ratio(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the ratio with its one-sided bounds."""
    if not len(prepared.values):
        return no_bounds(prepared)
    values, shape = _expand(prepared)
    lower = stats.mean_bound(values, **shape, alpha=alpha, side="lower")
    upper = stats.mean_bound(values, **shape, alpha=alpha, side="upper")
    return BoundedValue(value=_ratio(prepared), lower=lower.value, upper=upper.value), lower.method


def _ratio(prepared: Prepared) -> float:
    return float(prepared.values.sum() / np.asarray(prepared.strata).sum())


def _units(prepared: Prepared) -> Clusters:
    return np.arange(len(prepared.values)) if prepared.clusters is None else prepared.clusters


def _expand(prepared: Prepared) -> tuple[Floats, dict[str, Any]]:
    """Return one yes or no for each span, with its text or group, as `stats.estimate` takes them."""
    # Means of repeats need not be whole numbers; a fraction of a span is rounded.
    whole = np.rint(np.asarray(prepared.strata)).astype(np.int64)
    part = np.minimum(np.rint(prepared.values).astype(np.int64), whole)
    values = np.concatenate([np.ones(int(part.sum())), np.zeros(int((whole - part).sum()))])
    codes = _units(prepared)
    return values, {
        "kind": "binary",
        "bounds": (0.0, 1.0),
        "clusters": np.concatenate([np.repeat(codes, part), np.repeat(codes, whole - part)]),
    }


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second on the same texts, by Student's t over the units; None below two units."""
    if not len(first.values) or not len(second.values) or len(first.values) != len(second.values):
        return None
    units = np.unique(_units(first), return_inverse=True)[1]
    n = int(units.max()) + 1
    if n < 2:
        return None
    value = _ratio(first) - _ratio(second)
    residuals = np.bincount(units, weights=_influence(first) - _influence(second), minlength=n)
    total = float(residuals @ residuals)
    careful = _error(total + 2 * (_PSEUDO * n / max(_whole(first), _whole(second), 1.0)) ** 2, n + 2)
    error = _error(total, n) if total > 0 else careful
    p_value = float(2 * scipy.special.stdtr(n - 1, -abs(value) / error))
    half = float(scipy.special.stdtrit(n - 1, 1 - alpha / 2)) * error
    reach = float(scipy.special.stdtrit(n - 1, 1 - alpha)) * careful
    return Difference(
        value=value,
        interval=Interval(low=max(-1.0, value - half), high=min(1.0, value + half), level=1 - alpha, method=METHOD),
        p_value=p_value,
        p_exact=None,
        lower=max(-1.0, value - reach),
        upper=min(1.0, value + reach),
        method=METHOD,
        bounds_method=f"augmented {METHOD}",
        n=len(first.values),
        clusters=counted_clusters(first.clusters),
        deviation=error * math.sqrt(len(first.values)),
        dof=None if first.clusters is None else float(n - 1),
        span=1.0,
    )


def _influence(prepared: Prepared) -> Floats:
    """Return each text's part of the error of the ratio, times the number of texts."""
    whole = np.asarray(prepared.strata)
    return np.asarray((prepared.values - _ratio(prepared) * whole) / whole.mean())


def _whole(prepared: Prepared) -> float:
    return float(np.asarray(prepared.strata).mean()) * len(prepared.values)


def _error(total: float, units: int) -> float:
    return math.sqrt(total / (units * (units - 1)))


def value_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, 1.0


def higher_is_better(measure: Measure, facts: MetricFacts) -> bool:
    return True
