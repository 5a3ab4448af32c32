"""Rates that are pooled over texts: precision and recall of spans, F1 of flagged texts, and average precision.

Precision, recall and F1 are ratios of two sums, such as the found over the annotated spans of all texts. Spans of one text are
alike, so the text, or its group, is the unit: the ratio is a clustered proportion, bounded by Korn & Graubard (1998), Surv.
Methodol. 24:193, at the effective number of spans. Two arms are compared by the linearised ratios (Cochran 1977, Sampling
Techniques, 6.13), paired by unit. Average precision, the area under the precision-recall curve, has bootstrap intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from pytest_crucible import stats
from pytest_crucible.measures.row import (
    Clusters,
    Difference,
    End,
    Floats,
    Measured,
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


BOOTSTRAP = "bootstrap over texts"
# The ends of a 95 % interval are then order statistics 50 and 1,950.
RESAMPLES = 2_000
SEED = 201
"""Seed of all resamples: equal data have equal intervals."""
# Resamples in one block: 2,000 of 100,000 texts at once would take 1.6 GB.
_BLOCK_NUMBERS = 4_000_000


def average_precision(scores: Floats, labels: Floats) -> float:
    """Return the mean precision over the positives; ties are one threshold. scikit-learn: average_precision_score.

    >>> round(average_precision(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0.0, 0.0, 1.0, 1.0])), 4)
    0.8333
    """
    return float(_weighted_precision(scores, labels, np.ones((1, scores.size)))[0])


def _weighted_precision(scores: Floats, labels: Floats, weights: Floats) -> Floats:
    """Return the average precision of each row of weights (resamples x texts); NaN without a positive."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), scores.size - 1)
    sorted_weights = weights[:, order]
    right = np.cumsum(sorted_weights * labels[order], axis=1)[:, last]
    everything = np.cumsum(sorted_weights, axis=1)[:, last]
    steps = np.diff(right, axis=1, prepend=0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = np.where(everything > 0, right / everything, 0.0)
        return np.asarray((steps * precision).sum(axis=1) / right[:, -1])


def _resample(arms: Sequence[Prepared]) -> list[Floats]:
    """Return the average precision of each arm in the same resamples of texts, or of their groups."""
    first = arms[0]
    codes = (
        np.arange(len(first.values)) if first.clusters is None else np.unique(first.clusters, return_inverse=True)[1]
    )
    units = int(codes.max()) + 1
    rng = np.random.default_rng(SEED)
    rows = max(1, _BLOCK_NUMBERS // len(codes))
    parts: list[list[Floats]] = [[] for _ in arms]
    for start in range(0, RESAMPLES, rows):
        counts = rng.multinomial(units, np.full(units, 1 / units), size=min(rows, RESAMPLES - start))
        weights = counts[:, codes].astype(np.float64)
        for part, arm in zip(parts, arms, strict=True):
            part.append(_weighted_precision(arm.values, np.asarray(arm.strata), weights))
    return [np.concatenate(part) for part in parts]


def estimate_average_precision(prepared: Prepared, level: float) -> Measured:
    """Return average precision with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    value, (low, high) = _bounds_of_precision(prepared, (1 - level) / 2)
    interval = None if low is None or high is None else Interval(low=low, high=high, level=level, method=BOOTSTRAP)
    return Measured(value, interval, counted_clusters(prepared.clusters), BOOTSTRAP)


def bound_average_precision(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return average precision with its one-sided bounds."""
    if not len(prepared.values):
        return no_bounds(prepared)
    value, (low, high) = _bounds_of_precision(prepared, alpha)
    return BoundedValue(value=value, lower=low, upper=high), BOOTSTRAP


def _bounds_of_precision(prepared: Prepared, alpha: float) -> tuple[float, tuple[float | None, float | None]]:
    """Return the value and its percentile bounds on the logit scale; where all are right, no resample shows an error."""
    labels = np.asarray(prepared.strata)
    value = average_precision(prepared.values, labels)
    positives = int(labels.sum())
    if min(positives, len(labels) - positives) < 2:
        return value, (None, None)
    (draws,) = _resample([prepared])
    draws = draws[~np.isnan(draws)]
    low, high = (float(end) for end in np.quantile(draws, [alpha, 1 - alpha]))
    # Positives that all rank first could still have a rate of errors: that of as many texts without one.
    unseen = alpha ** (1 / positives)
    return value, (min(low, value, unseen if value >= 1 else low), max(high, value))


def compare_average_precision(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second on the same texts, by the standard error over the same resamples."""
    if not len(first.values) or not len(second.values) or first.strata is None:
        return None
    values = [average_precision(arm.values, np.asarray(arm.strata)) for arm in (first, second)]
    ours, theirs = _resample([first, second])
    differences = (ours - theirs)[~np.isnan(ours - theirs)]
    value, n = values[0] - values[1], len(first.values)
    positives = float(np.asarray(first.strata).sum())
    # Two more texts on which the arms differ: resamples cannot show outcomes that did not occur.
    error = math.sqrt(float(differences.var(ddof=1)) + (0.5 / positives**2 if value == 0 else 0.0))
    if min(positives, n - positives) < 2 or not error:
        return None
    p_value = float(2 * scipy.special.ndtr(-abs(value) / error))
    half, reach = (float(scipy.special.ndtri(1 - tail)) * error for tail in (alpha / 2, alpha))
    return Difference(
        value=value,
        interval=Interval(low=max(-1.0, value - half), high=min(1.0, value + half), level=1 - alpha, method=BOOTSTRAP),
        p_value=p_value,
        lower=max(-1.0, value - reach),
        upper=min(1.0, value + reach),
        method=BOOTSTRAP,
        bounds_method=BOOTSTRAP,
        n=n,
        clusters=counted_clusters(first.clusters),
        deviation=error * math.sqrt(n),
        span=1.0,
    )
