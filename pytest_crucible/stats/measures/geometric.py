"""Ratio of geometric means, by which a comparison of amounts is decided: seconds, tokens, money.

Zeros have no geometric mean, and are an error: another estimand in their place would let a single value decide what is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.records import EffectSize, Measure
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.choose import find_row
from pytest_crucible.stats.inputs import Arms, declare_pairs
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.ratios import log_claim, log_ratios_and_ends, log_side
from pytest_crucible.stats.measures.amounts import (
    describe_ratio,
    deviation_of_mean,
    with_alikeness,
    without_relative_rounding,
)
from pytest_crucible.stats.measures.row import GEOMETRIC_MEANS, Difference, Floats, Prepared
from pytest_crucible.stats.planning.gaffke import samples_by_gaffke
from pytest_crucible.stats.sizes import effect_sizes

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


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first over second, on the scale of logarithms. None without pairs, and if a lost value has no finite logarithm."""
    ends = [(arm.values.min(initial=np.inf), arm.values.max(initial=-np.inf)) for arm in (first, second)]
    if not all(0 < low <= high < np.inf for low, high in ends):
        return None
    values = without_relative_rounding(first.values, second.values)
    arms = declare_pairs(first.values, values, kind="positive", bounds=first.bounds, clusters=first.clusters)
    logs = log_ratios_and_ends(arms)[0]
    plain = with_alikeness(describe_ratio(first, GEOMETRIC_MEANS, float(logs.mean())), first, logs)
    try:
        return _with_bounds(plain, arms, logs, alpha)
    except NotEnoughData as refusal:
        # The ratio and the test are shown even without bounds.
        return replace(plain, note=str(refusal))


def _with_bounds(plain: Difference, arms: Arms, logs: Floats, alpha: float) -> Difference:
    answer = log_claim(arms, 1 - alpha)
    lower, upper = (log_side(arms, alpha, side) for side in _SIDES)
    effects = tuple(
        EffectSize(name=size.name, value=size.value, interval=size.interval)
        for size in effect_sizes(arms, 1 - alpha, "ratio")
    )
    return replace(
        plain,
        interval=answer.interval,
        proof_p=answer.p_value,
        lower=lower,
        upper=upper,
        bounds_method=find_row("ratio claim", "pairs", "unbounded", clustered=arms.clustered).method,
        deviation=deviation_of_mean(logs, arms.candidate.clusters),
        samples_past_limit=partial(_samples, arms),
        effects=effects,
    )


def _samples(arms: Arms, limit: float, alpha: float, power: float) -> int | None:
    values, ends, clusters = log_ratios_and_ends(arms)
    # Below the limit the mirrored values have to be proven to be above the mirrored limit.
    sign = 1.0 if values.mean() > limit else -1.0
    return samples_by_gaffke(
        sign * values, null=sign * limit, end=ends["lower"], alpha=alpha, power=power, clusters=clusters
    )
