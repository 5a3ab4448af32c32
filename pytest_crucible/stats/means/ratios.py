"""Ratios of geometric means and of totals, for amounts: latencies, costs, counts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    ROUNDING,
    Alternative,
    Array,
    Labels,
    Range,
    Side,
    check_share,
    finite,
    is_constant,
    paired_arrays,
)
from pytest_crucible.stats.inputs import OPEN, Arms, Observed, declare_arms, declare_pairs
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.clustered import (
    ClusteredMean,
    clustered_arms,
    clustered_interval,
    clustered_mean,
    clustered_p_value,
)
from pytest_crucible.stats.means.gaffke import gaffke_bound_of, gaffke_p_value_of
from pytest_crucible.stats.means.moments import check_enough, standard_error, t_interval, t_p_value, tail_share
from pytest_crucible.stats.means.t_tests import paired_differences, paired_t, welch_t
from pytest_crucible.stats.results import Significance


def geometric_mean_ratio_paired(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return the ratio of geometric means of pairs; R: exp(t.test(log(x), log(y), paired=TRUE)$conf.int).

    The estimate is the geometric mean of the pairs' ratios. Raises ValueError, with the count, for values that are not
    positive: a latency of 0 is a lost measurement. Pairs that all have one ratio: see `paired_t`.
    """
    first, second = paired_arrays(candidate, baseline)
    result = paired_t(_log_ratios(_logs(first), _logs(second)), alternative=alternative, level=level)
    return as_ratio(result, "geometric mean ratio, paired t of logs")


def geometric_mean_ratio_welch(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return the ratio of geometric means of two independent arms; R: exp(t.test(log(x), log(y))$conf.int).

    Raises ValueError, with the count, for values that are not positive. Arms without variation: see `welch_t`.
    """
    first, second = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    result = welch_t(_logs(first), _logs(second), alternative=alternative, level=level)
    return as_ratio(result, "geometric mean ratio, welch t of logs")


def ratio_of_totals(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> Significance:
    """Return sum(candidate) / sum(baseline) over paired values of at least 0, such as costs, tokens or calls.

    The t interval of log R with the standard error of mean(x_i / mean(x) - y_i / mean(y)), Taylor's linearisation. With
    `clusters` it is CR2 with Satterthwaite's degrees of freedom. Raises ValueError for negative values and totals of 0,
    NotEnoughData below two pairs or five clusters.

    >>> result = ratio_of_totals([120.0, 90.0, 300.0, 210.0], [100.0, 80.0, 310.0, 200.0])
    >>> round(result.estimate, 4), round(result.interval.low, 4), round(result.interval.high, 4)
    (1.0435, 0.9, 1.2099)
    """
    check_share(level, "level")
    x, y = paired_arrays(candidate, baseline)
    negative = int((x < 0).sum() + (y < 0).sum())
    if negative:
        raise ValueError(f"a ratio of totals needs values of at least 0: {negative} of {x.size + y.size} are not")
    if not (x.sum() > 0 and y.sum() > 0):
        raise ValueError(f"a ratio of totals needs totals above 0, not {x.sum():g} and {y.sum():g}")
    ratio, method = float(x.sum()) / float(y.sum()), "ratio of totals, log-delta"
    mean = _mean(_shares(x, y), clusters)
    if mean.se == 0:
        return Significance(
            method=method,
            statistic=None,
            p_value=1.0 if abs(ratio - 1) <= ROUNDING else None,
            estimate=ratio,
            n=(x.size,),
            status="degenerate",
            note="every pair, or every cluster, has the same ratio: it has no standard error",
        )
    log_ratio = math.log(ratio)
    result = Significance(
        method=method,
        statistic=log_ratio / mean.se,
        p_value=t_p_value(log_ratio / mean.se, mean.dof),
        dof=(mean.dof,),
        estimate=log_ratio,
        interval=t_interval(log_ratio, mean.se, mean.dof, level=level, method="log-delta"),
        se=mean.se,
        n=(x.size,),
    )
    return replace(as_ratio(result, method), estimate=ratio)


def as_ratio(result: Significance, method: str) -> Significance:
    """Return the result about a difference of logarithms as a result about a ratio.

    >>> round(as_ratio(paired_t([0.5, 0.7]), "ratio").estimate, 4)
    1.8221
    """
    assert result.estimate is not None, "a difference of logarithms is always estimated"
    interval = result.interval and replace(
        result.interval, low=as_number(result.interval.low), high=as_number(result.interval.high), method=method
    )
    return replace(result, method=method, estimate=as_number(result.estimate), interval=interval)


def as_number(log_ratio: float) -> float:
    """Return the ratio of a logarithm; infinite on overflow.

    >>> as_number(0.0), as_number(1000.0)
    (1.0, inf)
    """
    try:
        return math.exp(log_ratio)
    except OverflowError:
        return math.inf


def _mean(values: Array, clusters: Labels | None) -> ClusteredMean:
    """Return mean and standard error; for independent values the t's, which is CR2 with one value per cluster."""
    if clusters is None:
        check_enough(values)
        # By `clustered_mean`, 100,000 clusters of one value take 60 ms.
        error = 0.0 if is_constant(values) else standard_error(values)
        n = values.size
        return ClusteredMean(estimate=float(values.mean()), se=error, dof=n - 1.0, n=n, clusters=n)
    return clustered_mean(values, clusters)


def _shares(x: Array, y: Array) -> Array:
    """Return each pair's contribution to the logarithm of the ratio of totals; their mean is 0."""
    shares = x / x.mean() - y / y.mean()
    # Proportional arms leave contributions of rounding size, which are no variance.
    noise = ROUNDING * np.maximum(x / x.mean(), y / y.mean()).max()
    return np.where(np.abs(shares) <= noise, 0.0, shares)


def _logs(values: Array) -> Array:
    not_positive = int((values <= 0).sum())
    if not_positive:
        raise ValueError(f"a ratio of geometric means needs positive values: {not_positive} of {values.size} are not")
    return np.asarray(np.log(values))


def _log_ratios(first: Array, second: Array) -> Array:
    """Return log(x / y) of each pair, with rounding errors set to 0: a ratio is exact to about 1e-16, and so its log."""
    ratios = paired_differences(first, second)
    noise = ROUNDING * np.maximum(np.maximum(np.abs(first), np.abs(second)), 1.0)
    ratios[np.abs(ratios) <= noise] = 0.0
    if np.ptp(ratios) <= noise.max():
        ratios[:] = ratios[0]
    return ratios


# The largest ratio allowed for on samples that are too rare to be seen: a reply that loops to its token limit takes ten to
# thirty times as long. Without a limit no bound holds; with 100, 200 samples could not prove 10 %.
LARGEST_UNSEEN = 30.0


def paired_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_paired(
        arms.candidate.values, arms.baseline.values, alternative=alternative, level=level
    )


def clustered_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = logarithms(arms).pairs
    mean_log = clustered_mean(observed.values, observed.labels)
    interval = clustered_interval(mean_log, level=level, alternative=alternative)
    p_value = clustered_p_value(mean_log, alternative=alternative)
    statistic = mean_log.estimate / mean_log.se if mean_log.se else None
    answer = Significance(
        method="cr2",
        statistic=statistic,
        dof=(mean_log.dof,),
        interval=interval,
        p_value=p_value,
        estimate=mean_log.estimate,
        se=mean_log.se,
        status="ok" if mean_log.se else "degenerate",
    )
    return as_ratio(answer, "cr2 of logarithms")


def welch_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_welch(arms.candidate.values, arms.baseline.values, alternative=alternative, level=level)


def clustered_logs_of_two_arms(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    logs = logarithms(arms)
    values, labels = (logs.candidate.values, logs.baseline.values), (logs.candidate.labels, logs.baseline.labels)
    answer = clustered_arms(*values, *labels, alternative=alternative, level=level)
    return as_ratio(answer, "cr2 of logarithms")


def gaffke_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return as_ratio(log_claim(arms, level, alternative), "gaffke of logarithms")


def log_claim(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return Gaffke's two bounds for the mean logarithm of the pairs' ratios, and the p-value that agrees with them."""
    return log_claim_of(logarithms(arms).pairs, arms.candidate.bounds, level, alternative)


def log_claim_of(logs: Observed, bounds: Range, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return `log_claim` of the logarithms of the pairs' ratios; `bounds` are those of the amounts."""
    tail, reach = tail_share(1 - level, alternative), log_reach(logs.units.largest, bounds)
    low = -math.inf if alternative == "less" else log_side_of(logs, bounds, tail, "lower")
    high = math.inf if alternative == "greater" else log_side_of(logs, bounds, tail, "upper")
    lower = gaffke_p_value_of(logs.units, null=0.0, end=-reach, side="lower")
    upper = gaffke_p_value_of(logs.units, null=0.0, end=reach, side="upper")
    return Significance(
        method="gaffke",
        statistic=None,
        p_value={"greater": lower, "less": upper, "two-sided": min(1.0, 2 * lower, 2 * upper)}[alternative],
        estimate=logs.mean,
        interval=Interval(low=low, high=high, level=level, method="gaffke"),
        n=(logs.size,),
    )


def gaffke_logs_side(arms: Arms, alpha: float, side: Side) -> float:
    return as_number(log_side_of(logarithms(arms).pairs, arms.candidate.bounds, alpha, side))


def log_side_of(logs: Observed, bounds: Range, alpha: float, side: Side) -> float:
    """Return Gaffke's bound for the mean logarithm of the pairs' ratios."""
    reach = log_reach(logs.units.largest, bounds)
    return gaffke_bound_of(logs.units, end=-reach if side == "lower" else reach, alpha=alpha, side=side)


def welch_logs_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return _end(welch_logs(arms, 1 - 2 * alpha), side)


def clustered_logs_of_two_arms_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return _end(clustered_logs_of_two_arms(arms, 1 - 2 * alpha), side)


def _end(result: Significance, side: Side) -> float | None:
    # Each end of a two-sided interval at 1 - 2 alpha is a one-sided bound at alpha.
    if result.interval is None:
        return None
    return result.interval.low if side == "lower" else result.interval.high


def log_reach(largest: float, bounds: Range) -> float:
    """Return the largest logarithm of a ratio that the bounds allow for, among seen and unseen pairs.

    It follows from declared bounds above 0; otherwise it is that of LARGEST_UNSEEN, or the `largest` of these pairs.
    """
    if bounds[0] > 0 and math.isfinite(bounds[1]):
        return math.log(bounds[1] / bounds[0])
    return max(math.log(LARGEST_UNSEEN), largest)


def logarithms(arms: Arms) -> Arms:
    """Return the arms on the log scale, where a ratio is a difference. Raises ValueError, with the count, for 0."""
    check_positive(arms)
    candidate, baseline, labels = np.log(arms.candidate.values), np.log(arms.baseline.values), arms.candidate.clusters
    if arms.differences is not None:
        return declare_pairs(candidate, baseline, kind="unbounded", bounds=OPEN, clusters=labels)
    # Labels of independent arms stay paired with their own arm.
    both_labels = None if labels is None else (labels, arms.baseline.labels)
    return declare_arms(candidate, baseline, kind="unbounded", bounds=OPEN, clusters=both_labels)


def check_positive(arms: Arms) -> None:
    """Raise ValueError, with the count, for values that have no logarithm."""
    values = np.concatenate((arms.candidate.values, arms.baseline.values))
    without = int((values <= 0).sum())
    if without:
        raise ValueError(f"a ratio of geometric means needs positive values: {without} of {values.size} are not")


def geometric_mean(values: Array) -> float | None:
    """Return exp(mean(log)); None when a value is not above 0."""
    return float(np.exp(np.log(values).mean())) if values.size and values.min() > 0 else None
