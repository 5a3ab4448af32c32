"""Ratio of geometric means, by which a comparison of amounts is decided: seconds, tokens, money.

Zeros have no geometric mean. With a zero, the arms are compared by the median of the samples' ratios, which needs only their
order; two zeros have no ratio and count against every claim.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.records import EffectSize, Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.choose import find_row
from pytest_crucible.stats.inputs import Arms, declare_pairs
from pytest_crucible.stats.measures.rounding import without_rounding
from pytest_crucible.stats.measures.row import GEOMETRIC_MEANS, Difference, Prepared, counted_clusters
from pytest_crucible.stats.methods.ratios import log_claim, log_ratios_and_ends, log_side
from pytest_crucible.stats.planning.gaffke import detectable_by_gaffke, samples_by_gaffke
from pytest_crucible.stats.ranks.median_ratio import (
    log_ratios,
    median_of_ratios,
    median_ratio_bound,
    median_ratio_p_value,
)
from pytest_crucible.stats.sizes import effect_sizes

MEDIAN = "median of the samples' ratios"
_ONLY_ZEROS = (
    "half of the samples or more are 0 in both arms, so that their ratios show nothing: compare a rate, as in "
    "rate(cost_usd > 0), or declare bounds and write a margin in the metric's units"
)
# The rounding of an amount is relative to its size, not to its declared bounds.
_NO_RANGE = (0.0, math.inf)
_SIDES: tuple[Side, Side] = ("lower", "upper")


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first over second, on the scale of logarithms. None without pairs, and if a lost value could be anything."""
    if not len(first.values) or not all(np.isfinite(arm.values).all() for arm in (first, second)):
        return None
    second = replace(second, values=without_rounding(first.values, second.values, _NO_RANGE))
    pair = first.values, second.values
    of_pairs = _geometric_means if min(values.min() for values in pair) > 0 else _medians
    try:
        return of_pairs(first, second, alpha)
    except NotEnoughData as refusal:
        # The ratio is shown even without bounds.
        return _difference(first, MEDIAN, median_of_ratios(log_ratios(*pair)), "none", str(refusal))


def _geometric_means(first: Prepared, second: Prepared, alpha: float) -> Difference:
    arms = declare_pairs(first.values, second.values, kind="positive", bounds=first.bounds, clusters=first.clusters)
    answer = log_claim(arms, 1 - alpha)
    lower, upper = (log_side(arms, alpha, side) for side in _SIDES)
    method = find_row("ratio claim", "pairs", "unbounded", clustered=arms.clustered).method
    effects = tuple(
        EffectSize(name=size.name, value=size.value, interval=size.interval)
        for size in effect_sizes(arms, 1 - alpha, "ratio")
    )
    return replace(
        _difference(first, GEOMETRIC_MEANS, answer.estimate, method),
        interval=answer.interval,
        p_value=answer.p_value,
        lower=lower,
        upper=upper,
        effects=effects,
        detectable=partial(_detectable, arms),
        samples=partial(_samples, arms),
    )


def _detectable(arms: Arms, alpha: float) -> float | None:
    values, ends, clusters = log_ratios_and_ends(arms)
    return detectable_by_gaffke(values, end=ends["lower"], alpha=alpha / 2, clusters=clusters)


def _samples(arms: Arms, limit: float, alpha: float, power: float) -> int | None:
    values, ends, clusters = log_ratios_and_ends(arms)
    # Below the limit the mirrored values have to be proven to be above the mirrored limit.
    sign = 1.0 if values.mean() > limit else -1.0
    return samples_by_gaffke(
        sign * values, null=sign * limit, end=ends["lower"], alpha=alpha, power=power, clusters=clusters
    )


def _medians(first: Prepared, second: Prepared, alpha: float) -> Difference:
    logarithms = log_ratios(first.values, second.values)
    value = median_of_ratios(logarithms)
    if value is None:
        return _difference(first, MEDIAN, None, "none", _ONLY_ZEROS)
    zeros = int((first.values == 0).sum() + (second.values == 0).sum())
    note = f"{zeros:,} of {2 * len(logarithms):,} values are 0: compared by the {MEDIAN}"
    bound = partial(median_ratio_bound, logarithms, clusters=first.clusters)
    low, high = (bound(alpha=alpha / 2, side=side) for side in _SIDES)
    tails = [median_ratio_p_value(logarithms, side=side, clusters=first.clusters) for side in _SIDES]
    return replace(
        _difference(first, MEDIAN, value, "order statistics", note),
        interval=Interval(low=low, high=high, level=1 - alpha, method="order statistics"),
        p_value=min(1.0, 2 * min(tails)),
        lower=bound(alpha=alpha, side="lower"),
        upper=bound(alpha=alpha, side="upper"),
    )


def _difference(first: Prepared, ratio: str, value: float | None, method: str, note: str = "") -> Difference:
    return Difference(
        value=value,
        interval=None,
        p_value=None,
        p_exact=None,
        lower=None,
        upper=None,
        method=method,
        bounds_method=method,
        n=len(first.values),
        clusters=counted_clusters(first.clusters),
        deviation=None,
        ratio=ratio,
        note=note,
    )
