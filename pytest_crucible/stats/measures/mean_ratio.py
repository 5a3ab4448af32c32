"""Ratio of means, which is the ratio of totals: the estimand of `mean(cost_usd)` in a comparison of amounts.

Zeros are ordinary values. Without an upper end nothing is proven about a mean, because one unseen value could be the larger part
of a total; whether the arms are alike can be tested all the same.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.records import Contrast, EffectSize, Measure, MetricFacts
from pytest_crucible.stats.arrays import Side, is_finite_range
from pytest_crucible.stats.inputs import declare_pairs
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.ratio_bounds import mean_ratio_bound, mean_ratio_p_value
from pytest_crucible.stats.means.ratios import ratio_of_totals
from pytest_crucible.stats.measures.amounts import (
    describe_ratio,
    deviation_of_mean,
    with_alikeness,
    without_relative_rounding,
)
from pytest_crucible.stats.measures.row import RATIO_OF_MEANS, Difference, Floats, Prepared
from pytest_crucible.stats.planning.gaffke import samples_by_gaffke
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
    pair = first.values, without_relative_rounding(first.values, second.values)
    means = float(pair[0].mean()), float(pair[1].mean())
    if min(means) <= 0:
        return describe_ratio(first, RATIO_OF_MEANS, None, _ONLY_ZEROS)
    plain = describe_ratio(first, RATIO_OF_MEANS, math.log(means[0] / means[1]))
    tested = with_alikeness(plain, first, pair[0] - pair[1])
    try:
        return (
            _with_bounds(tested, first, pair, alpha)
            if is_finite_range(first.bounds)
            else _shown(tested, first, pair, alpha)
        )
    except NotEnoughData as refusal:
        return replace(tested, note=str(refusal))


_ONLY_ZEROS = (
    "all values of an arm are 0, so that there is no ratio of means: compare a rate, as in rate(cost_usd > 0), or declare bounds "
    "and write a margin in the metric's units"
)


def _with_bounds(tested: Difference, first: Prepared, pair: tuple[Floats, Floats], alpha: float) -> Difference:
    bound = partial(mean_ratio_bound, *pair, bounds=first.bounds, clusters=first.clusters)
    p_value = partial(mean_ratio_p_value, *pair, null=1.0, bounds=first.bounds, clusters=first.clusters)
    low, high, lower, upper = (_log(bound(alpha=share, side=side)) for share in (alpha / 2, alpha) for side in _SIDES)
    return replace(
        _planned(tested, first, pair, alpha),
        interval=Interval(low=low, high=high, level=1 - alpha, method=METHOD),
        proof_p=min(1.0, *(2 * p_value(side=side) for side in _SIDES)),
        lower=lower,
        upper=upper,
        bounds_method=METHOD,
        samples_past_limit=partial(_samples, pair, first),
    )


def _shown(tested: Difference, first: Prepared, pair: tuple[Floats, Floats], alpha: float) -> Difference:
    """Return the ratio with an interval to look at: nothing decides by it."""
    interval = ratio_of_totals(*pair, clusters=first.clusters, level=1 - alpha).interval
    if interval is not None:
        interval = replace(interval, low=_log(interval.low), high=_log(interval.high))
    return replace(_planned(tested, first, pair, alpha), interval=interval, samples_past_limit=lambda *_: None)


def _planned(tested: Difference, first: Prepared, pair: tuple[Floats, Floats], alpha: float) -> Difference:
    """Return the ratio with the scatter of its logarithm, and effect sizes."""
    linearised = pair[0] / pair[0].mean() - pair[1] / pair[1].mean()
    arms = declare_pairs(*pair, kind="positive", bounds=first.bounds, clusters=first.clusters)
    effects = (size for size in effect_sizes(arms, 1 - alpha) if size.name != "ratio of totals")
    return replace(
        tested,
        deviation=deviation_of_mean(linearised, first.clusters),
        effects=tuple(EffectSize(name=size.name, value=size.value, interval=size.interval) for size in effects),
    )


def _samples(pair: tuple[Floats, Floats], first: Prepared, limit: float, alpha: float, power: float) -> int | None:
    """Return the samples that prove the ratio to lie beyond a limit, on the side on which it does."""
    (low, high), ratio = first.bounds, math.exp(limit)
    values = pair[0] - ratio * pair[1]
    sign, end = (1.0, low - ratio * high) if values.mean() > 0 else (-1.0, ratio * low - high)
    return samples_by_gaffke(sign * values, null=0.0, end=end, alpha=alpha, power=power, clusters=first.clusters)


def _log(ratio: float) -> float:
    """Return the logarithm of a bound, which may be 0 or infinite."""
    return math.log(ratio) if ratio > 0 else -math.inf
