"""Bootstrap distributions without drawing: by listing every resample, or by FFT.

They need no seed and have no Monte Carlo error. A resample's sum is the sum of n independent picks, so its distribution
is the n-th convolution power of the scores' own: counts -> rfft -> power n -> irfft. Scores on a grid give the exact
distribution; other scores are placed on a fine grid first.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from pytest_crucible.stats.arrays import Array, finite
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.resampling.distribution import Distribution, tabulate_draws
from pytest_crucible.stats.resampling.grid import Cells, Grid, find_grid
from pytest_crucible.stats.resampling.statistic import Statistic, apply_to_samples

# Up to this many observations every resample is listed: 8^8 resamples, as 6435 multisets.
MOST_LISTED = 8
# Cells of the longest transform: 8 MB of probabilities.
LONGEST = 2**20
# Cells for scores on no grid: at least the first number, and the second for each score.
FINE, FINE_EACH = 2**15, 16
# A transformed probability below the first is rounding; everything left out together is below the second.
NOISE, RESOLUTION = 1e-15, 1e-9
# The window leaves out a probability of at most 1e-18.
OUTSIDE = math.log(2e18)


def enumerate_distribution(values: npt.ArrayLike, statistic: Statistic = np.mean) -> Distribution:
    """Return the distribution of a statistic over all n^n bootstrap resamples.

    The statistic must not depend on the order of its sample: resamples with equal members are computed once and weigh
    n! / (k1! ... kn!). Raises NotEnoughData without values and ValueError above eight of them.

    >>> distribution = enumerate_distribution([1.0, 2.0, 6.0])
    >>> distribution.resamples, distribution.mean
    (27.0, 3.0)
    """
    array = np.asarray(values, dtype=np.float64)
    _check_values(array.ravel())
    samples, counts = list_resamples(len(array))
    return tabulate_draws(apply_to_samples(array[samples], statistic), counts)


def compute_bootstrap_distribution(values: npt.ArrayLike) -> Distribution | None:
    """Return the exact bootstrap distribution of the mean of scores on a grid, or None.

    None for scores on no grid, and where the sums need a transform of more than a million cells. Tails below 1e-9 are
    not resolved.

    >>> distribution = compute_bootstrap_distribution([0.0, 1.0])
    >>> distribution.values.tolist(), distribution.weights.round(12).tolist()
    ([0.0, 0.5, 1.0], [0.25, 0.5, 0.25])
    """
    array = _check_values(values)
    grid = find_grid(array)
    return None if grid is None else _distribution_on_grid(grid, array.size)


def approximate_bootstrap_distribution(values: npt.ArrayLike) -> Distribution:
    """Return the bootstrap distribution of the mean of any scores, on a fine grid.

    Each score is split between its two neighbouring cells so that the mean stays exact. The standard deviation grows by
    less than 0.1 %, for up to a million scores; 10,000 random resamples miss it by 0.7 %.

    >>> distribution = approximate_bootstrap_distribution([0.1234, 0.5678, 0.9012, 0.3141])
    >>> round(distribution.mean, 12), round(distribution.deviation, 5)
    (0.476625, 0.14572)
    """
    array = _check_values(values)
    mean, spread = float(array.mean()), float(np.ptp(array))
    if not spread:
        return Distribution(values=array[:1], weights=np.ones(1))
    widest = _half_window(array / spread, array.size)
    step = spread * (2 * widest + 4) / min(LONGEST, max(FINE, FINE_EACH * array.size))
    positions = (array - mean) / step
    cells = np.floor(positions).astype(np.int64)
    upper_share = positions - cells
    half = math.ceil(widest * spread / step) + 1
    length = _fast_length(2 * half + 1)
    mass = np.bincount(cells % length, weights=1 - upper_share, minlength=length)
    mass += np.bincount((cells + 1) % length, weights=upper_share, minlength=length)
    weights = _convolution_power(mass / array.size, array.size)
    return _drop_rounding(mean, step / array.size, np.roll(weights, half), -half)


def list_resamples(n: int) -> tuple[Cells, Array]:
    """Return every multiset of n picks from n observations, one per row, and its number of ordered resamples.

    >>> picks, counts = list_resamples(2)
    >>> picks.tolist(), counts.tolist()
    ([[0, 0], [0, 1], [1, 1]], [1.0, 2.0, 1.0])
    """
    if n > MOST_LISTED:
        raise ValueError(f"{n} values have too many resamples to list them, expected at most {MOST_LISTED}")
    picks = np.array(list(itertools.combinations_with_replacement(range(n), n)), dtype=np.int64)
    members = (picks[:, :, None] == np.arange(n)).sum(axis=1)
    return picks, np.rint(np.exp(gammaln(n + 1) - gammaln(members + 1).sum(axis=1)))


def _check_values(values: npt.ArrayLike) -> Array:
    array = finite(values)
    if not array.size:
        raise NotEnoughData("0 values: a bootstrap needs at least 1")
    return array


def _distribution_on_grid(grid: Grid, n: int) -> Distribution | None:
    """Return the distribution of the mean of n picks from the cells of a grid."""
    total, most = int(grid.cells.sum()), int(grid.cells.max())
    half = math.ceil(_half_window(grid.cells / most, n) * most) if most else 0
    # Sums are counted modulo the length: what lies outside the window around their mean is too improbable to see.
    lowest, highest = max(0, total - half), min(n * most, total + half)
    length = _fast_length(highest - lowest + 1)
    if length > LONGEST:
        return None
    mass = np.bincount(grid.cells % length, minlength=length) / n
    weights = np.roll(_convolution_power(mass, n), -(lowest % length))
    return _drop_rounding(grid.origin, grid.step / n, weights[: highest - lowest + 1], lowest)


def _half_window(scaled: Array, n: int) -> float:
    """Return a distance from its mean that the sum of n picks exceeds with probability below 1e-18.

    Bernstein's inequality (1924).
    """
    reach = float(np.abs(scaled - scaled.mean()).max())
    linear = OUTSIDE * reach / 3
    return linear + math.sqrt(linear**2 + 2 * n * OUTSIDE * float(scaled.var()))


def _convolution_power(mass: Array, n: int) -> Array:
    """Return the distribution of the sum of n independent picks, modulo the length of `mass`."""
    transformed = np.fft.rfft(mass)
    power = np.ones_like(transformed)
    # Repeated squaring: numpy's complex power is a hundred times slower.
    while n:
        if n & 1:
            power *= transformed
        transformed = transformed * transformed if n > 1 else transformed
        n >>= 1
    return np.asarray(np.maximum(np.fft.irfft(power, mass.size), 0.0), dtype=np.float64)


def _drop_rounding(origin: float, step: float, weights: Array, lowest: int) -> Distribution:
    """Return the distribution without cells made by rounding: origin + step * (lowest, lowest + 1, ...)."""
    (cells,) = np.nonzero(weights > NOISE)
    probabilities = weights[cells]
    values = np.asarray(origin + step * (lowest + cells), dtype=np.float64)
    return Distribution(values=values, weights=probabilities / probabilities.sum(), resolution=RESOLUTION)


def _fast_length(shortest: int) -> int:
    """Return the smallest 2^a * 3^b * 5^c of at least this length: numpy transforms these fast."""
    length = 1 << max(shortest - 1, 0).bit_length()
    for fives in range(7):
        for threes in range(7):
            factor = 5**fives * 3**threes
            length = min(length, factor << max(math.ceil(shortest / factor) - 1, 0).bit_length())
    return length
