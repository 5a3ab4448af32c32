"""Sample sizes that prove a target: of rates, of means by Gaffke's bound, and the losses that a run can see.

Detectable means and sample sizes of Gaffke's bound, from how much a sample varies.
The sample represents the population, and larger samples count each of its values more often. A power of 80 % is that of a sample
whose mean is as low as one in five is.

The smallest loss that a run can see where it comes as replies that fall to the worst value.
A regression is seldom spread over all samples: more often some replies collapse, and those samples fall from the value they had to
the worst one. The number of falls is binomial, and each makes the differences vary more: a plan from the variance of equal arms
promises a power of 80 % and has 3 to 70 %.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from pytest_crucible.stats.arrays import (
    Array,
    Labels,
    Side,
    check_shares,
    check_side,
    cluster_codes,
    cluster_totals,
    finite,
)
from pytest_crucible.stats.distributions import beta_cdf, binomial_pmf, normal_quantile, t_quantile
from pytest_crucible.stats.means.clustered import clustered_mean
from pytest_crucible.stats.means.gaffke import gaffke_p_value
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.planning.roots import STEADY, rising_root, round_up, smallest_integer

# Up to this size, each n is computed. Beyond it the sawtooth of the power is too small to matter.
LONGEST_SCAN = 2000
# Relative error of a binomial tail.
_TIE = 1e-12


def samples_to_prove_proportion(
    rate: float, target: float, *, alpha: float = 0.05, power: float = 0.8, side: Side = "lower"
) -> int | None:
    """Return how many samples prove a target by the Clopper-Pearson bound with this power, if `rate` is the true rate.

    `lower` proves "at least target", `upper` "at most". None when the rate is not beyond the target on that side. Exact:
    binomial tails. Counts are whole, so power is a sawtooth in n; the answer is the first size that has the power, and
    with the nine sizes after it on average.

    >>> samples_to_prove_proportion(0.97, 0.95), samples_to_prove_proportion(1.0, 0.95)
    (624, 59)
    """
    check_shares(alpha=alpha, power=power)
    check_side(side)
    if not (0 <= rate <= 1 and 0 <= target <= 1):
        raise ValueError(f"a rate and its target must lie between 0 and 1, not {rate!r} and {target!r}")
    # "At most" is "at least" of the opposite outcome.
    rate, target = (rate, target) if side == "lower" else (1 - rate, 1 - target)
    if rate <= target:
        return None
    enough = smallest_integer(lambda n: bool((_powers(n, n + STEADY, rate, target, alpha) >= power).all()), 1)
    if enough is None:
        return None
    # Bisection of a sawtooth ends at any of its teeth, where the power may be far above the requested one.
    first = max(1, enough - min(enough // 5, LONGEST_SCAN))
    powers = _powers(first, enough + STEADY, rate, target, alpha)
    holds = (powers[: 1 - STEADY] >= power) & (sliding_window_view(powers, STEADY).mean(axis=1) >= power)
    return first + int(holds.argmax())


def _powers(first: int, end: int, rate: float, target: float, alpha: float) -> Array:
    """Return the chance that the lower bound reaches the target, for each size from `first` to before `end`."""
    if target == 0:
        # The bound is above 0 from the first success on.
        sizes = np.arange(first, end)
        return np.asarray(-np.expm1(sizes * np.log1p(-rate))) if rate < 1 else np.ones(sizes.size)
    # Two of two successes at a target of 0.1 are as likely as an alpha of 0.01, and by rounding a little more.
    alpha *= 1 + _TIE
    fewest = _fewest_successes(first, target, alpha)
    proof, success = _Tail.of(fewest, first, target), _Tail.of(fewest, first, rate)
    powers = np.empty(end - first)
    for n in range(first, end):
        powers[n - first] = success.chance
        proof, success = proof.of_one_more(fewest, n), success.of_one_more(fewest, n)
        # With one sample more, as many successes or one more are the fewest that prove.
        if proof.chance > alpha:
            proof, success = proof.above(fewest, n + 1), success.above(fewest, n + 1)
            fewest += 1
    return powers


def _fewest_successes(n: int, target: float, alpha: float) -> int:
    """Return the smallest k with P(X >= k | target) <= alpha; n + 1 if there is none."""
    deviation = math.sqrt(n * target * (1 - target))
    k = min(max(math.ceil(n * target - normal_quantile(alpha) * deviation), 1), n + 1)
    while k <= n and beta_cdf(target, k, n - k + 1) > alpha:
        k += 1
    while k > 1 and beta_cdf(target, k - 1, n - k + 2) <= alpha:
        k -= 1
    return k


class _Tail(NamedTuple):
    """The chance of at least k of n successes, and that of k - 1.

    From one size to the next both follow by a few operations, so that 2,000 sizes take 4 ms.
    """

    rate: float
    chance: float
    before: float

    @classmethod
    def of(cls, k: int, n: int, rate: float) -> _Tail:
        if rate == 1:
            return cls(rate, float(k <= n), float(k - 1 == n))
        return cls(rate, beta_cdf(rate, k, n - k + 1) if k <= n else 0.0, binomial_pmf(k - 1, n, rate))

    def of_one_more(self, k: int, n: int) -> _Tail:
        """Return the chances of n + 1 samples."""
        before = self.before * (n + 1) * (1 - self.rate) / (n + 2 - k)
        return _Tail(self.rate, self.chance + self.rate * self.before, before)

    def above(self, k: int, n: int) -> _Tail:
        """Return the chances for k + 1 successes."""
        if self.rate == 1:
            return _Tail.of(k + 1, n, self.rate)
        exactly = self.before * (n + 1 - k) / k * self.rate / (1 - self.rate)
        return _Tail(self.rate, max(self.chance - exactly, 0.0), exactly)


def samples_for_zero(limit: float, *, alpha: float = 0.05) -> int:
    """Return how many samples without a failure prove a failure rate of at most `limit`.

    The exact form of the rule of three: (1 - limit)^n <= alpha (Hanley & Lippman-Hand 1983).

    >>> [samples_for_zero(limit) for limit in (0.05, 0.02, 0.01)]
    [59, 149, 299]
    """
    check_shares(alpha=alpha, limit=limit)
    return round_up(math.log(alpha) / math.log1p(-limit))


# A plan for more samples is reported as none.
MOST_SAMPLES = 10_000_000
_ROUNDING = 1e-9
# A plan by 4,000 of 100,000 values differs by 1 % at most, and takes 5 instead of 200 ms.
_REPRESENTATIVE = 4_000
# Precision of a detectable mean, as a share of the range: reports show three digits.
_PRECISION = 1e-7
# Weight of values that an unlucky sample hardly has. At 0 they would still count as possible.
_RAREST = 1e-9


def detectable_by_gaffke(
    values: npt.ArrayLike, *, end: float, alpha: float, power: float = 0.8, times: float = 1
) -> float | None:
    """Return the smallest mean above 0 that as many values prove at a one-sided alpha; None if that takes more than -end.

    `end` is the lowest value that exists. The values' own mean plays no part. Raises as `gaffke_bound`.

    >>> round(detectable_by_gaffke([-0.5, 0.5] * 100, end=-3.4, alpha=0.025), 3)
    0.126
    """
    check_shares(alpha=alpha, power=power)
    array = finite(values)
    reserve = normal_quantile(power) * _standard_error(array, None) / math.sqrt(times)
    array, times = _representatives(array, times)
    centred = array - array.mean()

    def excess(mean: float) -> float:
        p_value = gaffke_p_value(centred + mean, null=0.0, end=end, side="lower", times=times)
        return math.log(p_value) - math.log(alpha)

    # The end does not move along with the values.
    low, high = max(0.0, (end - float(centred.min())) * (1 + _ROUNDING)), -end
    if high <= low or excess(high) > 0:
        return None
    return reserve + rising_root(lambda mean: -excess(mean), low, most=high, error=_PRECISION * high)


def samples_by_gaffke(
    values: npt.ArrayLike,
    *,
    null: float,
    end: float,
    alpha: float,
    power: float = 0.8,
    clusters: Labels | None = None,
) -> int | None:
    """Return how many values prove with this power that their mean is above `null`, if it is; None if no number does.

    >>> samples_by_gaffke([0.0, 0.4] * 50, null=0.0, end=-3.4, alpha=0.025)
    75
    """
    check_shares(alpha=alpha, power=power)
    array = finite(values)
    if clusters is None:
        array, _ = _representatives(array, 1.0)
    residuals = array - array.mean()
    if clusters is not None:
        residuals = cluster_totals(cluster_codes(clusters, array.size)[0], residuals)
    error = _standard_error(array, clusters)
    # Weights of 1 + tilt * residual lower the mean by one standard error.
    squares = float(residuals @ residuals)
    tilt = -error * array.size / squares if squares else 0.0

    def proves(samples: float) -> bool:
        times = samples / array.size
        weights = 1 + normal_quantile(power) / math.sqrt(times) * tilt * residuals
        unlucky = times * np.maximum(weights, _RAREST)
        return gaffke_p_value(array, null=null, end=end, side="lower", clusters=clusters, times=unlucky) <= alpha

    low, high = 1.0, float(MOST_SAMPLES)
    if array.mean() <= null or not proves(high):
        return None
    while high > 1.001 * low + 0.5:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if proves(middle) else (middle, high)
    return math.ceil(high)


def _representatives(array: Array, times: float) -> tuple[Array, float]:
    """Return quantiles that stand for many values, and how often each counts."""
    size = array.size
    if size <= _REPRESENTATIVE:
        return array, times
    quantiles = np.sort(array)[(2 * np.arange(_REPRESENTATIVE) + 1) * size // (2 * _REPRESENTATIVE)]
    return quantiles, times * size / _REPRESENTATIVE


def _standard_error(array: Array, clusters: Labels | None) -> float:
    return standard_error(array) if clusters is None else clustered_mean(array, clusters).se


# Numbers of falls beyond so many standard deviations from the mean have no weight.
_FAR = 9.0
# Further digits are not shown.
_DIGITS = 1e-6


def detectable_by_falls(
    n: int,
    deviation: float,
    falls: npt.ArrayLike,
    *,
    dof: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float | None:
    """Return the smallest loss that a two-sided test of n samples shows with this power, if it comes as falls.

    `deviation` is that of the differences of equal arms (square root of n times the standard error), `falls` are distances of
    samples from the worst value, of any number of samples that represent the n. None if not even a fall of all samples is seen.
    """
    check_shares(alpha=alpha, power=power)
    sizes = finite(falls, name="falls")
    if n < 2 or not sizes.mean() > 0:
        return None
    freedom = n - 1.0 if dof is None else dof

    def excess(share: float) -> float:
        return power_of_falls(n, share, deviation, sizes, dof=freedom, alpha=alpha) - power

    return None if excess(1.0) < 0 else float(sizes.mean()) * rising_root(excess, _DIGITS, most=1.0)


def power_of_falls(n: int, share: float, deviation: float, sizes: Array, *, dof: float, alpha: float) -> float:
    """Return the chance that a two-sided test shows a loss if each sample falls with this probability."""
    from scipy.special import bdtr, ndtr

    spread = math.sqrt(n * share * (1 - share))
    first, last = math.floor(n * share - _FAR * spread) - 1, math.ceil(n * share + _FAR * spread)
    falls = np.arange(max(0, first), min(n, last) + 1, dtype=np.float64)
    fewer = bdtr(falls[0] - 1, n, share) if falls[0] else 0.0
    weights = np.diff(bdtr(falls, n, share), prepend=fewer)
    part, noise = falls / n, (1 - falls / n) * deviation**2
    loss, square = part * sizes.mean(), part * np.square(sizes).mean()
    critical = -t_quantile(dof, alpha / 2)
    error = np.sqrt(np.maximum(noise + square - loss**2, 0.0) / (n - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        # A larger fall makes the error larger as well, which takes back some of what it adds to the loss.
        used = np.where(error > 0, critical / (2 * n * error), 0.0)
        own = np.var(sizes) - 2 * used * np.cov(sizes, sizes**2, bias=True)[0, 1] + used**2 * np.var(sizes**2)
        varies = np.hypot(np.sqrt((noise + part * own) / n), critical * np.sqrt(noise / n) / math.sqrt(2 * dof))
        observed = np.where(varies > 0, ndtr((loss - critical * error) / varies), loss > critical * error)
    # If all that differs is k falls, a permutation p-value is below 2^(1 - k), whatever the size of the falls.
    return float(weights @ np.minimum(observed, alpha * 2.0 ** np.minimum(falls - 1, 60.0)))
