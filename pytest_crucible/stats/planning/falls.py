"""The smallest loss that a run can see where it comes as replies that fall to the worst value.

A regression is seldom spread over all samples: more often some replies collapse, and those samples fall from the value they had to
the worst one. The number of falls is binomial, and each makes the differences vary more: a plan from the variance of equal arms
promises a power of 80 % and has 3 to 70 %.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtr, stdtrit

from pytest_crucible.stats.arrays import Array, check_share, finite
from pytest_crucible.stats.planning.roots import rising_root

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

    >>> round(detectable_by_falls(200, 0.1, [0.6, 1.0]), 3), round(detectable_by_falls(200, 0.1, [0.6, 1.0], alpha=0.005), 3)
    (0.037, 0.057)
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    sizes = finite(falls, name="falls")
    if n < 2 or not sizes.mean() > 0:
        return None
    freedom = n - 1.0 if dof is None else dof

    def excess(share: float) -> float:
        return power_of_falls(n, share, deviation, sizes, dof=freedom, alpha=alpha) - power

    return None if excess(1.0) < 0 else float(sizes.mean()) * rising_root(excess, _DIGITS, most=1.0)


def power_of_falls(n: int, share: float, deviation: float, sizes: Array, *, dof: float, alpha: float) -> float:
    """Return the chance that a two-sided test shows a loss if each sample falls with this probability."""
    spread = math.sqrt(n * share * (1 - share))
    first, last = math.floor(n * share - _FAR * spread) - 1, math.ceil(n * share + _FAR * spread)
    falls = np.arange(max(0, first), min(n, last) + 1, dtype=np.float64)
    fewer = bdtr(falls[0] - 1, n, share) if falls[0] else 0.0
    weights = np.diff(bdtr(falls, n, share), prepend=fewer)
    part, noise = falls / n, (1 - falls / n) * deviation**2
    loss, square = part * sizes.mean(), part * np.square(sizes).mean()
    critical = -float(stdtrit(dof, alpha / 2))
    error = np.sqrt(np.maximum(noise + square - loss**2, 0.0) / (n - 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        # A larger fall makes the error larger as well, which takes back some of what it adds to the loss.
        taken = np.where(error > 0, critical / (2 * n * error), 0.0)
        own = np.var(sizes) - 2 * taken * np.cov(sizes, sizes**2, bias=True)[0, 1] + taken**2 * np.var(sizes**2)
        varies = np.hypot(np.sqrt((noise + part * own) / n), critical * np.sqrt(noise / n) / math.sqrt(2 * dof))
        seen = np.where(varies > 0, ndtr((loss - critical * error) / varies), loss > critical * error)
    # If all that differs is k falls, a permutation p-value is below 2^(1 - k), whatever the size of the falls.
    return float(weights @ np.minimum(seen, alpha * 2.0 ** np.minimum(falls - 1, 60.0)))
