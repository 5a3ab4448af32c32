"""Methods for pairs: candidate - baseline with interval and p-value, and one-sided bounds for margins.

One-sided alternatives give intervals of which one end is infinite.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import Alternative, Side, is_constant, is_finite_range
from pytest_crucible.stats.inputs import Arms, Observed
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean, clustered_p_value
from pytest_crucible.stats.means.point_mass import point_mass_p_value
from pytest_crucible.stats.means.student import paired_t
from pytest_crucible.stats.methods import one_arm
from pytest_crucible.stats.proportions.paired import mcnemar_exact
from pytest_crucible.stats.proportions.paired_exact import paired_exact_bound, paired_exact_test
from pytest_crucible.stats.results import Significance


def exact_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    gained, lost = _discordant(observed)
    result = paired_exact_test(gained, lost, observed.values.size, level=level, alternative=alternative)
    # McNemar's conditional p-value, which readers may expect. It is two-sided.
    return replace(
        result, p_exact=mcnemar_exact(gained, lost) if alternative == "two-sided" else None, status="ok", note=""
    )


def paired_t_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    result = paired_t(observed.values, alternative=alternative, level=level, bounds=observed.bounds)
    if is_constant(observed.values):
        flipped = 1.0 if result.p_value is None else result.p_value
        return _constant(observed, float(observed.values[0]), observed.values.size, result.interval, flipped, level)
    return result


def cr2_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = differences(arms)
    mean = clustered_mean(observed.values, observed.labels)
    interval = clustered_interval(mean, level=level, bounds=observed.bounds, alternative=alternative)
    p_value = clustered_p_value(mean, alternative=alternative)
    if mean.se == 0:
        return _constant(observed, mean.estimate, mean.clusters, interval, p_value, level)
    return Significance(
        method="cr2",
        statistic=mean.estimate / mean.se,
        dof=(mean.dof,),
        interval=interval,
        p_value=p_value,
        estimate=mean.estimate,
        se=mean.se,
    )


def _constant(
    observed: Observed, difference: float, n: int, interval: Interval | None, flipped: float, level: float
) -> Significance:
    """Return the result for equal differences, with an interval and a p-value that agree.

    The sign-flip p-value does not use the bounds and can contradict the point-mass interval. So the p-value is the larger
    of the sign-flip and the point-mass one, and an interval that excludes 0 although p is not small is extended to 0.
    Both become more conservative only; the sign-flip p-value remains as `p_exact`. Each end of the interval alone errs in
    up to 1 - level, so it also serves one-sided alternatives.
    """
    p_value = flipped
    if interval is not None and is_finite_range(observed.bounds):
        # The larger of the two valid p-values is valid, and agrees with the interval below.
        p_value = max(flipped, point_mass_p_value(difference, n, bounds=observed.bounds))
        if p_value >= 1 - level:
            low, high = min(interval.low, 0.0), max(interval.high, 0.0)
            interval = Interval(low=low, high=high, level=level, method=interval.method)
    return Significance(
        method="point mass",
        statistic=None,
        interval=interval,
        p_value=p_value,
        p_exact=flipped,
        estimate=difference,
        status="degenerate",
    )


# -- one-sided bounds to decide a margin by -----------------------------------------------------------------------


def exact_side(arms: Arms, alpha: float, side: Side) -> float:
    observed = differences(arms)
    return paired_exact_bound(*_discordant(observed), observed.values.size, alpha=alpha, side=side)


def gaffke_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return one_arm.gaffke_side(differences(arms), alpha, side)


def no_side(arms: Arms, alpha: float, side: Side) -> None:
    """Return None: no bound holds for a difference of values without ends (Bahadur & Savage 1956, Ann. Math. Stat. 27:1115)."""


def betting_side(arms: Arms, alpha: float, side: Side) -> float:
    return one_arm.betting_side(differences(arms), alpha, side)


def differences(arms: Arms) -> Observed:
    assert arms.differences is not None, "the table gives paired methods to pairs only"
    return arms.differences


def _discordant(observed: Observed) -> tuple[int, int]:
    # One pair has an interval, but it is nearly [-1, 1] and would only look like a result.
    if observed.values.size < 2:
        raise NotEnoughData(f"{quantity(observed.values.size, 'pair')}: a comparison needs at least 2")
    return int((observed.values > 0).sum()), int((observed.values < 0).sum())
