"""`per_success(cost_usd, solved)`: the amount spent for each success, over all samples, those that failed included.

The estimate is the sum of the amounts over the number of successes, with Fieller's interval, in which the covariance of the two
counts. Two arms are compared by the ratio of theirs: the test is that of the sign flips of paired replies, at the ratio that both
arms have together, and the interval is that of the linearised logarithm.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pytest_crucible.measures.ratios import describe_ratio, deviation_of_mean, with_alikeness
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
from pytest_crucible.stats.arrays import is_finite_range
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.fieller import METHOD, fieller_interval
from pytest_crucible.stats.means.moments import standard_deviation
from pytest_crucible.stats.means.ratio_bounds import mean_ratio_bound

RATIO = "ratio of amounts per success"
_NO_SUCCESS = "no sample succeeded, so that there is no amount per success"
_BOUNDS = "gaffke of x - r y"
_SUCCESS = (0.0, 1.0)


def check_metrics(measure: Measure, facts: tuple[MetricFacts, ...]) -> str:
    """Return why these metrics have no amount per success; empty if they have one."""
    amount, success = facts
    if success.kind not in (None, "binary"):
        return f"{success.name!r} is not a yes-or-no metric: take one that is, such as per_success(cost_usd, solved)"
    if amount.kind is not None and not amount.low >= 0:
        return f"{amount.name!r} may be below 0, and is no amount: take one such as cost_usd or tokens"
    return ""


def no_proof(measure: Measure, facts: MetricFacts) -> str:
    """Explain why nothing is proven about an amount without an upper end; empty for one that has an end."""
    if is_finite_range((facts.low, facts.high)):
        return ""
    return f"nothing is proven about an amount per success without an upper bound: declare bounds of {measure.metric!r}"


def prepare(observations: Observations, end: End) -> Prepared:
    """Return the amount and the success of each sample. Lost ones make the ratio as low, or as high, as it can be."""
    amount, success = observations.columns
    amounts, successes = amount.values, success.values
    if end != "observed":
        amounts, successes = (amount.low, success.high) if end == "low" else (amount.high, success.low)
    facts = observations.facts[0]
    if not np.nansum(successes):
        return Prepared(values=np.array([]), problem=_NO_SUCCESS)
    return Prepared(
        values=amounts,
        strata=successes,
        clusters=observations.clusters,
        bounds=(facts.low, facts.high),
        keys=observations.keys,
        monte_carlo=observations.monte_carlo,
    )


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return the amount per success with its two-sided interval."""
    if not len(prepared.values):
        return no_data(prepared)
    try:
        interval = fieller_interval(prepared.values, _successes(prepared), level=level, clusters=prepared.clusters)
    except (NotEnoughData, ValueError):
        interval = None
    return Measured(_ratio(prepared), interval, counted_clusters(prepared.clusters), METHOD)


def bound(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return the amount per success with its one-sided bounds, where the amount has an upper end."""
    if not len(prepared.values) or not is_finite_range(prepared.bounds):
        return no_bounds(prepared) if not len(prepared.values) else (BoundedValue(value=_ratio(prepared)), "none")
    end = partial(
        mean_ratio_bound,
        prepared.values,
        _successes(prepared),
        bounds=prepared.bounds,
        denominator_bounds=_SUCCESS,
        alpha=alpha,
        clusters=prepared.clusters,
    )
    try:
        return BoundedValue(value=_ratio(prepared), lower=end(side="lower"), upper=end(side="upper")), _BOUNDS
    except NotEnoughData:
        return BoundedValue(value=_ratio(prepared)), "none"


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first over second, on the scale of logarithms. None without pairs, and if a lost amount could be anything."""
    arms = first, second
    if not all(len(arm.values) and np.isfinite(arm.values).all() for arm in arms):
        return None
    if len(first.values) != len(second.values):
        return None
    ratios = [_ratio(arm) for arm in arms]
    if min(ratios) <= 0:
        return describe_ratio(first, RATIO, None, "an arm spends nothing, so that there is no ratio")
    plain = describe_ratio(first, RATIO, math.log(ratios[0] / ratios[1]))
    together = sum(float(arm.values.sum()) for arm in arms) / sum(float(_successes(arm).sum()) for arm in arms)
    excess = [arm.values - together * _successes(arm) for arm in arms]
    return _with_interval(with_alikeness(plain, first, excess[0] - excess[1]), arms, alpha)


def _with_interval(tested: Difference, arms: tuple[Prepared, Prepared], alpha: float) -> Difference:
    """Return the ratio with an interval to look at: nothing decides by it."""
    from scipy.special import stdtrit

    linearised = _linearise(arms[0]) - _linearise(arms[1])
    clusters, value = arms[0].clusters, tested.value
    try:
        error, dof = _standard_error(linearised, clusters)
    except NotEnoughData as refusal:
        return replace(tested, note=str(refusal))
    assert value is not None
    half = float(stdtrit(dof, 1 - alpha / 2)) * error
    return replace(
        tested,
        interval=Interval(low=value - half, high=value + half, level=1 - alpha, method="linearised logarithm"),
        deviation=deviation_of_mean(linearised, clusters),
        samples_past_limit=lambda *_: None,
    )


def _standard_error(values: Floats, clusters: Clusters | None) -> tuple[float, float]:
    """Return the standard error of a mean with its degrees of freedom. Raises NotEnoughData."""
    if clusters is not None:
        mean = clustered_mean(values, clusters)
        return mean.se, mean.dof
    if values.size < 2:
        raise NotEnoughData("1 pair: an interval needs at least 2")
    return standard_deviation(values) / math.sqrt(values.size), values.size - 1.0


def _linearise(prepared: Prepared) -> Floats:
    """Return each sample's part of the logarithm of the ratio, times the number of samples."""
    successes = _successes(prepared)
    return np.asarray(prepared.values / prepared.values.mean() - successes / successes.mean())


def _successes(prepared: Prepared) -> Floats:
    return np.asarray(prepared.strata, dtype=np.float64)


def _ratio(prepared: Prepared) -> float:
    return float(prepared.values.sum() / _successes(prepared).sum())
