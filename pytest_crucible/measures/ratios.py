"""Ratios of means and of geometric means, by which comparisons of amounts are decided: seconds, tokens, money.

Ratio of geometric means, by which a comparison of amounts is decided: seconds, tokens, money.
Zeros have no geometric mean, and are an error: another estimand in their place would let a single value decide what is compared.

Ratio of means, which is the ratio of totals: the estimand of `mean(cost_usd)` in a comparison of amounts.
Zeros are ordinary values. Without an upper end nothing is proven about a mean, because one unseen value could be the larger part
of a total; whether the arms are alike can be tested all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.measures.row import Clusters, Difference, Floats, Numbers, Prepared, counted_clusters
from pytest_crucible.measures.statistic import GEOMETRIC_MEANS, RATIO_OF_MEANS
from pytest_crucible.measures.values import without_rounding
from pytest_crucible.records import Contrast, EffectSize, Measure, MetricFacts
from pytest_crucible.stats.arrays import Side, is_finite_range
from pytest_crucible.stats.choose import find_row
from pytest_crucible.stats.estimating import deviation_for_power
from pytest_crucible.stats.inputs import Arms, Observed, declare_pairs
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.moments import standard_deviation
from pytest_crucible.stats.means.ratio_bounds import mean_ratio_bound, mean_ratio_p_value
from pytest_crucible.stats.means.ratios import log_claim_of, log_reach, log_side_of, logarithms, ratio_of_totals
from pytest_crucible.stats.planning.proof import samples_by_gaffke
from pytest_crucible.stats.resampling.alikeness import check_pairs, flip_signs, flip_units
from pytest_crucible.stats.sizes import effect_sizes

# The rounding of an amount is relative to its size, not to its declared bounds.
_NO_RANGE = (0.0, math.inf)


def without_relative_rounding(first: Floats, second: Floats) -> Floats:
    """Return the second amounts, after replacing those that differ from the first by less than a millionth of them."""
    return without_rounding(first, second, _NO_RANGE)


def describe_ratio(first: Prepared, ratio: str, value: float | None, note: str = "") -> Difference:
    """Return the logarithm of a ratio, as yet without test and bounds."""
    groups = counted_clusters(first.clusters)
    return Difference(
        value=value,
        method="none",
        n=len(first.values),
        clusters=groups,
        dof=None if groups is None else groups - 1.0,
        ratio=ratio,
        note=note,
    )


def with_alikeness(ratio: Difference, first: Prepared, differences: Floats) -> Difference:
    """Return the ratio with the test that the two replies to a sample could be exchanged, by these differences of pairs."""
    try:
        alike = flip_signs(differences, clusters=first.clusters, keys=first.keys, monte_carlo=first.monte_carlo)
    except NotEnoughData as refusal:
        return replace(ratio, note=str(refusal))
    return replace(ratio, p_value=alike.p_value, alikeness=alike, method=alike.method)


def deviation_of_mean(values: Floats, clusters: Clusters | None) -> float:
    """Return the square root of n times the standard error of a mean, by which samples are planned."""
    if clusters is None:
        return standard_deviation(values)
    return clustered_mean(values, clusters).se * math.sqrt(values.size)


_SIDES: tuple[Side, Side] = ("lower", "upper")


def zeros_problem(measure: Measure, arms: Mapping[str, Prepared]) -> str:
    """Explain zeros, which have no geometric mean: how many each arm has, and what to declare instead; empty without one.

    >>> arms = {"v2": Prepared(values=np.array([0.0, 2.0])), "v1": Prepared(values=np.array([1.0, 2.0]))}
    >>> zeros_problem(Measure(metric="tool_s"), arms).partition(":")[0]
    "1 of 4 values of 'tool_s' is 0 (v2 1, v1 0), and a ratio of geometric means needs values above 0"
    """
    zeros = {name: int(np.count_nonzero(arm.values <= 0)) for name, arm in arms.items()}
    count, total = sum(zeros.values()), sum(arm.values.size for arm in arms.values())
    if not count:
        return ""
    by_arm = ", ".join(f"{name} {number:,}" for name, number in zeros.items())
    by_mean = replace(measure, by_mean=True).expression
    median = replace(measure, statistic="quantile", quantile=0.5).expression
    rate = replace(measure, statistic="rate", inner_relation=">", inner_value=0.0).expression
    return (
        f"{count:,} of {total:,} values of {measure.metric!r} {'is' if count == 1 else 'are'} 0 ({by_arm}), and a "
        f"{GEOMETRIC_MEANS} needs values above 0: compare {by_mean}, {median} or {rate} instead"
    )


def compare_geometric_means(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first over second, on the scale of logarithms. None without pairs, and if a lost value has no finite logarithm."""
    ends = [(arm.values.min(initial=np.inf), arm.values.max(initial=-np.inf)) for arm in (first, second)]
    if not all(0 < low <= high < np.inf for low, high in ends):
        return None
    values = without_relative_rounding(first.values, second.values)
    arms = declare_pairs(first.values, values, kind="positive", bounds=first.bounds, clusters=first.clusters)
    logs = logarithms(arms)
    logs = replace(logs, keys=first.keys, monte_carlo=first.monte_carlo)
    result = claim_geometric_means(logs, arms.candidate.bounds, alpha)
    if result.bounds_method == "none":
        return result
    effects = tuple(
        EffectSize(name=size.name, value=size.value, interval=size.interval)
        for size in effect_sizes(arms, 1 - alpha, "ratio")
    )
    past_limit = partial(_samples_for_geometric_means, logs.pairs, arms.candidate.bounds)
    return replace(result, samples_past_limit=past_limit, effects=effects)


def claim_geometric_means(logs: Arms, bounds: Numbers, alpha: float) -> Difference:
    """Return the mean logarithm of the pairs' ratios with its test and bounds; `bounds` are those of the amounts."""
    ratios, groups = logs.pairs, logs.groups
    plain = Difference(
        value=ratios.mean,
        method="none",
        n=ratios.size,
        clusters=groups,
        dof=None if groups is None else groups - 1.0,
        ratio=GEOMETRIC_MEANS,
    )
    try:
        check_pairs(ratios.size)
        alike = flip_units(ratios.blocks(logs.keys), monte_carlo=logs.monte_carlo)
    except NotEnoughData as refusal:
        return replace(plain, note=str(refusal))
    plain = replace(plain, p_value=alike.p_value, alikeness=alike, method=alike.method)
    try:
        answer = log_claim_of(ratios, bounds, 1 - alpha)
        lower, upper = (log_side_of(ratios, bounds, alpha, side) for side in _SIDES)
    except NotEnoughData as refusal:
        # The ratio and the test are shown even without bounds.
        return replace(plain, note=str(refusal))
    return replace(
        plain,
        interval=answer.interval,
        proof_p=answer.p_value,
        lower=lower,
        upper=upper,
        bounds_method=find_row("ratio claim", "pairs", "unbounded", clustered=logs.clustered).method,
        deviation=deviation_for_power(ratios),
    )


def _samples_for_geometric_means(
    logs: Observed, bounds: Numbers, limit: float, alpha: float, power: float
) -> int | None:
    # Below the limit the mirrored values have to be proven to be above the mirrored limit.
    sign = 1.0 if logs.values.mean() > limit else -1.0
    end = -log_reach(logs.units.largest, bounds)
    return samples_by_gaffke(
        sign * logs.values, null=sign * limit, end=end, alpha=alpha, power=power, clusters=logs.clusters
    )


METHOD = "gaffke of x - r y"
_BOTH_SIDES: tuple[Side, Side] = ("lower", "upper")


def no_proof_of_means(measure: Measure, facts: MetricFacts) -> str:
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


def compare_means(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
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
            _with_bounds_of_means(tested, first, pair, alpha)
            if is_finite_range(first.bounds)
            else _without_bounds(tested, first, pair, alpha)
        )
    except NotEnoughData as refusal:
        return replace(tested, note=str(refusal))


_ONLY_ZEROS = (
    "all values of an arm are 0, so that there is no ratio of means: compare a rate, as in rate(cost_usd > 0), or declare bounds "
    "and write a margin in the metric's units"
)


def _with_bounds_of_means(tested: Difference, first: Prepared, pair: tuple[Floats, Floats], alpha: float) -> Difference:
    bound = partial(mean_ratio_bound, *pair, bounds=first.bounds, clusters=first.clusters)
    p_value = partial(mean_ratio_p_value, *pair, null=1.0, bounds=first.bounds, clusters=first.clusters)
    low, high, lower, upper = (
        _log(bound(alpha=share, side=side)) for share in (alpha / 2, alpha) for side in _BOTH_SIDES
    )
    return replace(
        _add_planning(tested, first, pair, alpha),
        interval=Interval(low=low, high=high, level=1 - alpha, method=METHOD),
        proof_p=min(1.0, *(2 * p_value(side=side) for side in _BOTH_SIDES)),
        lower=lower,
        upper=upper,
        bounds_method=METHOD,
        samples_past_limit=partial(_samples_for_means, pair, first),
    )


def _without_bounds(tested: Difference, first: Prepared, pair: tuple[Floats, Floats], alpha: float) -> Difference:
    """Return the ratio with an interval to look at: nothing decides by it."""
    interval = ratio_of_totals(*pair, clusters=first.clusters, level=1 - alpha).interval
    if interval is not None:
        interval = replace(interval, low=_log(interval.low), high=_log(interval.high))
    return replace(_add_planning(tested, first, pair, alpha), interval=interval, samples_past_limit=lambda *_: None)


def _add_planning(tested: Difference, first: Prepared, pair: tuple[Floats, Floats], alpha: float) -> Difference:
    """Return the ratio with the scatter of its logarithm, and effect sizes."""
    linearised = pair[0] / pair[0].mean() - pair[1] / pair[1].mean()
    arms = declare_pairs(*pair, kind="positive", bounds=first.bounds, clusters=first.clusters)
    effects = (size for size in effect_sizes(arms, 1 - alpha) if size.name != "ratio of totals")
    return replace(
        tested,
        deviation=deviation_of_mean(linearised, first.clusters),
        effects=tuple(EffectSize(name=size.name, value=size.value, interval=size.interval) for size in effects),
    )


def _samples_for_means(
    pair: tuple[Floats, Floats], first: Prepared, limit: float, alpha: float, power: float
) -> int | None:
    """Return the samples that prove the ratio to lie beyond a limit, on the side on which it does."""
    (low, high), ratio = first.bounds, math.exp(limit)
    values = pair[0] - ratio * pair[1]
    sign, end = (1.0, low - ratio * high) if values.mean() > 0 else (-1.0, ratio * low - high)
    return samples_by_gaffke(sign * values, null=0.0, end=end, alpha=alpha, power=power, clusters=first.clusters)


def _log(ratio: float) -> float:
    """Return the logarithm of a bound, which may be 0 or infinite."""
    return math.log(ratio) if ratio > 0 else -math.inf
