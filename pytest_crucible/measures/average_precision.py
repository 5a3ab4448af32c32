"""Average precision, the area under the precision-recall curve, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy

from pytest_crucible.measures import auroc
from pytest_crucible.measures.row import (
    Difference,
    Floats,
    Measured,
    Numbers,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)
from pytest_crucible.records import BoundedValue, Measure, MetricFacts
from pytest_crucible.stats.interval import Interval

METHOD = "bootstrap over texts"
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


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return average precision with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    value, (low, high) = _bounds(prepared, (1 - level) / 2)
    interval = None if low is None or high is None else Interval(low=low, high=high, level=level, method=METHOD)
    return Measured(value, interval, counted_clusters(prepared.clusters), METHOD)


def bound_area(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return average precision with its one-sided bounds."""
    if not len(prepared.values):
        return no_bounds(prepared)
    value, (low, high) = _bounds(prepared, alpha)
    return BoundedValue(value=value, lower=low, upper=high), METHOD


def _bounds(prepared: Prepared, alpha: float) -> tuple[float, tuple[float | None, float | None]]:
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


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
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
        interval=Interval(low=max(-1.0, value - half), high=min(1.0, value + half), level=1 - alpha, method=METHOD),
        p_value=p_value,
        p_exact=None,
        lower=max(-1.0, value - reach),
        upper=min(1.0, value + reach),
        method=METHOD,
        bounds_method=METHOD,
        n=n,
        clusters=counted_clusters(first.clusters),
        deviation=error * math.sqrt(n),
        span=1.0,
    )


def value_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, 1.0


def higher_is_better(measure: Measure, facts: MetricFacts) -> bool:
    return True


prepare = auroc.prepare
expected_problem = auroc.expected_problem
