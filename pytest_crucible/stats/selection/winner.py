"""The best of several arms: its estimate and interval, corrected for having been chosen (the winner's curse).

Andrews, Kitagawa & McCloskey (2024), "Inference on Winners", QJE 139:305. Given which arm won and by how much the others
would have to gain, the winner's mean is a truncated normal variable: the conditional estimate is median-unbiased, but its
interval is very long when two arms nearly tie. The hybrid also stays within a simultaneous interval, so that its length is
bounded: report this one.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import scipy
from scipy.special import log_ndtr

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Labels, Range, check_share, finite, finite_matrix, is_finite_range
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import with_interval
from pytest_crucible.stats.selection.max_t import Angular, Linear, Scale, joint_means

# Standard errors beyond which a solution is reported as infinite: log tails lose their digits there.
FARTHEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The range in which an observation could lie, in standard errors from where it does lie: low <= 0 <= high.

    `reach` also keeps it within this many standard errors of its mean (infinite: no condition).
    """

    low: float
    high: float
    reach: float = math.inf


def solve_truncated_mean(truncation: Truncation, share: float) -> float:
    """Return the mean of a truncated unit normal variable for which P(variable <= 0) = `share`.

    The share descends as the mean grows (Andrews, Kitagawa & McCloskey 2024, section 4), so that bisection finds it. -inf
    or inf when the mean is more than a million standard errors away.
    """
    low, high = _bracket(truncation, share)
    if math.isinf(low) or math.isinf(high):
        return low if math.isinf(low) else high
    # 60 halvings of at most 1e6 leave less than 1e-11.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share_below(truncation, middle) > share else (low, middle)
    return (low + high) / 2


def share_below(truncation: Truncation, mean: float) -> float:
    """Return P(variable <= 0) of a truncated unit normal variable with this mean."""
    low, high = max(truncation.low, mean - truncation.reach), min(truncation.high, mean + truncation.reach)
    if low >= 0 or high <= 0:
        return 0.0 if low >= 0 else 1.0
    # Logarithms of the tail on the side away from the mean keep their digits at any distance.
    if mean < 0:
        return 1 - _ratio(log_ndtr(mean), log_ndtr(mean - low), log_ndtr(mean - high))
    return _ratio(log_ndtr(-mean), log_ndtr(high - mean), log_ndtr(low - mean))


def _ratio(part: float, whole: float, outside: float) -> float:
    """Return (e^part - e^outside) / (e^whole - e^outside)."""
    return float(math.exp(part - whole) * math.expm1(outside - part) / math.expm1(outside - whole))


def _bracket(truncation: Truncation, share: float) -> tuple[float, float]:
    """Return two means between which the solution lies; both infinite when it is too far away."""
    if math.isfinite(truncation.reach):
        return -truncation.reach, truncation.reach
    low = high = 1.0
    while share_below(truncation, -low) < share:
        low *= 2
        if low > FARTHEST:
            return -math.inf, -math.inf
    while share_below(truncation, high) > share:
        high *= 2
        if high > FARTHEST:
            return math.inf, math.inf
    return -low, high


Cells = npt.NDArray[np.int64]

# Candidate steps are 1/k for these k: decimals, shares of up to sixty checks, powers of two.
PARTS = (*range(1, 61), 64, 72, 80, 90, 96, 100, 120, 125, 128, 200, 250, 256, 500, 512, 1000, 1024, 10_000, 100_000)
# The part of a step that a value may lie off its grid point: the noise of arithmetic, and no more.
OFF_GRID = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """values = origin + step * cells, with the largest possible step."""

    origin: float
    step: float
    cells: Cells


def find_grid(values: npt.ArrayLike, *, origin: float | None = None) -> _Grid | None:
    """Return the coarsest grid that holds all values, or None.

    By default it starts at the smallest value. With `origin=0.0` the grid is one of differences, and cells may be
    negative.
    """
    array = finite(values)
    if not array.size:
        return None
    start = float(array.min()) if origin is None else origin
    distances = array - start
    distinct = np.unique(np.abs(distances))
    for step in _candidates(distinct):
        # The first values reject nearly every wrong step, so that all values are rarely checked.
        if _fits(distinct[:16], step) and _fits(distinct, step):
            return _coarsest(start, step, distances, np.rint(distances / step).astype(np.int64))
    return None


def _candidates(distinct: Array) -> list[float]:
    """Return the steps to try, the distance between neighbours first.

    Any two values lie on a grid of their own.
    """
    gaps = np.diff(distinct, prepend=0.0)
    wide = gaps[gaps > OFF_GRID * distinct[-1]]
    nearest = [float(wide.min())] if wide.size else []
    return [*nearest, *(1.0 / part for part in PARTS)]


def _fits(distances: Array, step: float) -> bool:
    cells = distances / step
    # Above 2^52 a double has no fraction left, and every value would fit.
    return bool(cells[-1] < 2**52 and np.all(np.abs(cells - np.rint(cells)) <= OFF_GRID))


def _coarsest(start: float, step: float, distances: Array, cells: Cells) -> _Grid:
    reduced = cells // (int(np.gcd.reduce(cells)) or 1)
    farthest = int(np.abs(distances).argmax())
    # The longest distance gives the most precise step: no rounding error of a single gap is multiplied.
    longest = abs(int(reduced[farthest]))
    return _Grid(origin=start, step=abs(float(distances[farthest])) / longest if longest else step, cells=reduced)


# The part of alpha that the hybrid spends on its simultaneous interval; the authors' recommendation (section 5).
PROJECTION_SHARE = 0.1
# Variances below this part of the winner's are rounding: the arms have the same values.
SAME_VALUES = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class WinnerResult:
    """The arm with the highest mean: estimates and intervals with and without correction for its selection."""

    arm: int
    """Its position, from 0. Of equal means, the first wins."""
    estimate: float
    """The hybrid estimate: median-unbiased up to alpha / 20."""
    interval: Interval
    conditional: float
    """The median-unbiased estimate; -inf where another arm is so near that no value is too small."""
    conditional_interval: Interval
    naive: float
    """The winner's mean, as if it had been the only arm."""
    naive_interval: Interval
    arms: int

    def __str__(self) -> str:
        corrected = with_interval(self.estimate, self.interval)
        return f"arm {self.arm} of {self.arms}: {corrected}, without correction {self.naive:.4g} (hybrid)"


def winner_from_values(
    values: npt.ArrayLike, *, clusters: Labels | None = None, bounds: Range | None = None, level: float = 0.95
) -> WinnerResult:
    """Return the winner among the columns of samples x arms values, corrected for its selection.

    For the winner's difference from a baseline subtract the baseline's value from each row: the same arm wins. Finite
    `bounds` of the values, (0, 1) by default where all are 0 or 1, add a pseudo-observation at each and compute on the
    angular scale: without them the luckiest of 32 arms also has too small a variance. Values on a grid can tie: half a
    step of the mean then separates winning from losing. Raises NotEnoughData below two samples or five clusters, and
    when the winner's values do not vary and have no bounds.

    >>> rng = np.random.default_rng(0)
    >>> result = winner_from_values(rng.normal(0.5, 0.2, (100, 8)))
    >>> result.arm, round(result.naive, 3), round(result.estimate, 3)
    (3, 0.515, 0.48)
    """
    matrix = finite_matrix(values, rows="samples", columns="arms")
    if bounds is None and np.isin(matrix, (0.0, 1.0)).all():
        bounds = (0.0, 1.0)
    finite_bounds = bounds if is_finite_range(bounds) else None
    joint = joint_means(matrix, clusters, bounds=finite_bounds)
    grid = find_grid(matrix.ravel(), origin=float(matrix[0, 0]))
    step = 0.0 if grid is None else grid.step / len(matrix)
    scale = Linear() if finite_bounds is None else Angular(finite_bounds)
    return _correct(_rescale(joint.means, joint.covariance, scale, step), matrix.mean(axis=0), joint.dof, level)


def winner_from_estimates(
    estimates: npt.ArrayLike, covariance: npt.ArrayLike, *, dof: float | None = None, level: float = 0.95
) -> WinnerResult:
    """Return the winner among k estimates with a k x k covariance matrix, corrected for its selection.

    `dof` are the degrees of freedom of the covariance matrix, None when it is known; they lengthen the intervals as t
    does. Python: multiple_inference.rank_condition.RankCondition, whose simultaneous interval is simulated; here it is
    Sidak's, which is exact for independent arms and a little long for correlated ones. Raises ValueError for a matrix of
    another shape or without symmetry and for an exact tie, and NotEnoughData when the winner's variance is 0.
    """
    means = finite(estimates, name="estimates")
    matrix = np.asarray(covariance, dtype=np.float64)
    if means.size < 2 or matrix.shape != (means.size, means.size):
        raise ValueError(f"{means.size} estimates need a square covariance matrix, not the shape {matrix.shape}")
    finite(matrix.ravel(), name="covariances")
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0):
        raise ValueError(f"the covariance matrix of {means.size} estimates is not symmetric")
    contest = _rescale(means, matrix, Linear(), 0.0)
    # Between continuous estimates a tie has no probability, and no mean would make it likely.
    if contest.truncation.low == 0:
        raise ValueError(
            f"two of {means.size} estimates tie for the best: use winner_from_values, which knows their steps"
        )
    return _correct(contest, means, math.inf if dof is None else dof, level)


@dataclass(frozen=True, slots=True)
class _Contest:
    """The winner's mean on a scale, and how far it could move before another arm wins."""

    arm: int
    mean: float
    se: float
    truncation: Truncation
    scale: Scale


def _rescale(means: Array, covariance: Array, scale: Scale, step: float) -> _Contest:
    # Equal means on a grid may differ by rounding, and the first one is to win.
    arm = int(np.argmax(means >= means.max() - step / 4))
    # Ties go to the first arm: it wins from a gap of 0 on, a later one from a gap of one step on.
    later = np.arange(means.size) > arm
    rivals = scale.forward(means + np.where(later, -step / 2, step / 2))
    mean = float(scale.forward(means)[arm])
    slopes = scale.slope(means)
    covariances = covariance[arm] * slopes[arm] * slopes
    variance = float(covariances[arm])
    if variance <= 0:
        raise NotEnoughData(f"arm {arm} of {later.size} does not vary: declare bounds, or its estimate has no error")
    rivals[arm] = mean
    truncation = _truncate(mean - rivals, covariances, variance)
    return _Contest(arm, mean, math.sqrt(variance), truncation, scale)


def _truncate(gaps: Array, covariances: Array, variance: float) -> Truncation:
    """Return how far the winner's mean could move, all else equal, before another arm wins (equation 9)."""
    gains = variance - covariances
    # An arm with the winner's values, as the winner itself, gains as much as the winner and never overtakes.
    moves = np.abs(gains) > SAME_VALUES * variance
    distances = gaps[moves] * variance / gains[moves]
    down, up = distances[gains[moves] > 0], -distances[gains[moves] < 0]
    return Truncation(low=-max(float(down.min(initial=math.inf)), 0.0), high=max(float(up.min(initial=math.inf)), 0.0))


def _correct(contest: _Contest, means: Array, dof: float, level: float) -> WinnerResult:
    check_share(level, "level")
    alpha, naive = 1 - level, float(means[contest.arm])
    beta = PROJECTION_SHARE * alpha
    truncation = contest.truncation
    # Standard errors within which all k means lie with a chance of at least 1 - beta (Sidak 1967).
    reach = _quantile(-math.expm1(math.log1p(-beta) / means.size) / 2, dof)
    hybrid = replace(truncation, reach=contest.se * reach)
    free = Truncation(low=-math.inf, high=math.inf)
    return WinnerResult(
        arm=contest.arm,
        estimate=naive - _selection_bias(contest, hybrid),
        interval=_interval(contest, hybrid, dof, (alpha - beta) / (1 - beta), level, "hybrid"),
        conditional=naive - _selection_bias(contest, truncation),
        conditional_interval=_interval(contest, truncation, dof, alpha, level, "conditional"),
        naive=naive,
        naive_interval=_interval(contest, free, dof, alpha, level, "naive"),
        arms=means.size,
    )


def _selection_bias(contest: _Contest, truncation: Truncation) -> float:
    """Return by how much the winner's mean exceeds the mean whose median it is."""
    median = contest.mean + contest.se * solve_truncated_mean(_standardise(truncation, contest.se), 0.5)
    return contest.scale.back(contest.mean) - contest.scale.back(median)


def _interval(
    contest: _Contest, truncation: Truncation, dof: float, alpha: float, level: float, method: str
) -> Interval:
    # A t interval is a normal one with a longer standard error; a truncated t has no solution when arms nearly tie.
    se = contest.se * _quantile(alpha / 2, dof) / _quantile(alpha / 2, math.inf)
    low, high = (
        contest.scale.back(contest.mean + se * solve_truncated_mean(_standardise(truncation, se), share))
        for share in (1 - alpha / 2, alpha / 2)
    )
    return Interval(low=low, high=high, level=level, method=method)


def _standardise(truncation: Truncation, se: float) -> Truncation:
    return Truncation(low=truncation.low / se, high=truncation.high / se, reach=truncation.reach / se)


def _quantile(tail: float, dof: float) -> float:
    return -float(scipy.special.ndtri(tail) if math.isinf(dof) else scipy.special.stdtrit(dof, tail))
