"""Ratio of means, which is the ratio of totals: the estimand of `mean(cost_usd)` in a comparison of amounts.

Zeros are ordinary values. Without an upper end nothing is proven about a mean, because one unseen value could be the larger part
of a total; whether the arms are alike can be tested all the same.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.records import Contrast, EffectSize, Interval, Measure, MetricFacts
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Side, is_finite_range
from pytest_crucible.stats.counts.ratios import ratio_of_totals
from pytest_crucible.stats.inputs import declare_pairs
from pytest_crucible.stats.means.ratio_bounds import mean_ratio_bound, mean_ratio_p_value
from pytest_crucible.stats.measures.amounts import describe_ratio, without_relative_rounding
from pytest_crucible.stats.measures.row import RATIO_OF_MEANS, Difference, Prepared
from pytest_crucible.stats.sizes import effect_sizes

METHOD = "gaffke of x - r y"
_SIDES: tuple[Side, Side] = ("lower", "upper")


def no_proof(measure: Measure, facts: MetricFacts) -> str:
    """Explain why a ratio of means has no bound: its values have no upper end."""
    if is_finite_range((facts.low, facts.high)):
        return ""
    limit = (
        "" if not isinstance(measure, Contrast) or measure.limit is None else f" with the limit {measure.limit_text}"
    )
    return (
        f"nothing is proven about a {RATIO_OF_MEANS} without an upper bound: declare bounds of {measure.metric!r}, or compare "
        f"{measure.metric!r} alone, by the ratio of geometric means{limit}"
    )


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return mean over mean, on the scale of logarithms. None without pairs, and if a lost value could be anything."""
    if not len(first.values) or not all(np.isfinite(arm.values).all() for arm in (first, second)):
        return None
    second = replace(second, values=without_relative_rounding(first.values, second.values))
    means = float(first.values.mean()), float(second.values.mean())
    if min(means) <= 0:
        return describe_ratio(first, RATIO_OF_MEANS, None, "none", _ONLY_ZEROS)
    plain = describe_ratio(first, RATIO_OF_MEANS, math.log(means[0] / means[1]), METHOD)
    try:
        return (
            _with_bounds(plain, first, second, alpha)
            if is_finite_range(first.bounds)
            else _shown(plain, first, second, alpha)
        )
    except NotEnoughData as refusal:
        return replace(plain, method="none", bounds_method="none", note=str(refusal))


_ONLY_ZEROS = (
    "all values of an arm are 0, so that there is no ratio of means: compare a rate, as in rate(cost_usd > 0), or declare bounds "
    "and write a margin in the metric's units"
)


def _with_bounds(plain: Difference, first: Prepared, second: Prepared, alpha: float) -> Difference:
    pair = first.values, second.values
    shape = {"bounds": first.bounds, "clusters": first.clusters}
    bound = partial(mean_ratio_bound, *pair, **shape)
    low, high, lower, upper = (_log(bound(alpha=share, side=side)) for share in (alpha / 2, alpha) for side in _SIDES)
    tails = [mean_ratio_p_value(*pair, null=1.0, side=side, **shape) for side in _SIDES]
    return replace(
        plain,
        interval=Interval(low=low, high=high, level=1 - alpha, method=METHOD),
        p_value=min(1.0, 2 * min(tails)),
        lower=lower,
        upper=upper,
        effects=_effects(first, second, alpha),
    )


def _shown(plain: Difference, first: Prepared, second: Prepared, alpha: float) -> Difference:
    """Return the ratio with an interval to look at: nothing decides by it."""
    totals = ratio_of_totals(first.values, second.values, clusters=first.clusters, level=1 - alpha)
    interval = totals.interval
    if interval is not None:
        interval = replace(interval, low=_log(interval.low), high=_log(interval.high))
    return replace(
        plain, interval=interval, method=totals.method, bounds_method="none", effects=_effects(first, second, alpha)
    )


def _effects(first: Prepared, second: Prepared, alpha: float) -> tuple[EffectSize, ...]:
    arms = declare_pairs(first.values, second.values, kind="positive", bounds=first.bounds, clusters=first.clusters)
    return tuple(
        EffectSize(name=size.name, value=size.value, interval=size.interval)
        for size in effect_sizes(arms, 1 - alpha)
        if size.name != "ratio of totals"
    )


def _log(ratio: float) -> float:
    """Return the logarithm of a bound, which may be 0 or infinite."""
    return math.log(ratio) if ratio > 0 else -math.inf
