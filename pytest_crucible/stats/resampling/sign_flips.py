"""The sums of differences under all sign patterns: counted, as a distribution, or a random sample of them.

The distribution of a resampled statistic: its values and their weights.
Enumeration, FFT and random draws all produce one.

Scores on a grid: two-decimal scores, Likert levels, shares of five checks.
Their sums take few values, so the distribution of a resampled mean can be computed instead of drawn.

Under "candidate and baseline are exchangeable", each difference is as likely with the other sign, and all 2^n sign
patterns are equally likely. Three ways to their sums: two lists (exact up to 34 differences), a distribution on the
grid of the differences (exact for rounded scores), and random flips.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, check_share, finite

# Values closer than this, relative to the largest, are one value: sums differ by rounding in any order.
TIE = 1e-12
# Slack of a computed distribution function: FFT and linear binning leave less than this.
ENOUGH = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Distribution:
    """A discrete distribution: ascending distinct values and their weights."""

    values: Array
    weights: Array
    """The number of resamples with that value; probabilities where `resamples` is None."""
    resamples: float | None = None
    """Equally likely resamples behind the weights; None for a distribution computed without listing them."""
    resolution: float = 0.0
    """Tail shares below this are rounding error: the distribution does not resolve them."""
    cumulated: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cumulated", np.cumsum(self.weights))

    @property
    def mean(self) -> float:
        """The mean of the resampled statistic."""
        return float(
            np.sum(self.values * self.weights) / self.cumulated[-1]
        )  # `@` would wake threads for a microsecond

    @property
    def deviation(self) -> float:
        """The standard deviation of the resampled statistic (divided by the weight, not by the weight less one)."""
        return math.sqrt(float(np.sum((self.values - self.mean) ** 2 * self.weights) / self.cumulated[-1]))

    def share_below(self, value: float) -> float:
        """Return P(T* < value) + P(T* = value) / 2.

        >>> tabulate_draws(np.array([1.0, 2.0, 2.0, 3.0])).share_below(2.0)
        0.5
        """
        slack = _slack(self.values, value)
        below = int(np.searchsorted(self.values, value - slack, side="left"))
        through = int(np.searchsorted(self.values, value + slack, side="right"))
        before = np.concatenate(([0.0], self.cumulated))
        return float((before[below] + before[through]) / (2 * self.cumulated[-1]))

    def quantile(self, share: float) -> float:
        """Return a quantile of the statistic.

        Of listed resamples it is R's type 7, otherwise the smallest value with F(value) >= share.

        >>> tabulate_draws(np.array([1.0, 2.0, 3.0, 4.0])).quantile(0.5)
        2.5
        """
        check_share(share, "the share of a quantile")
        # Resamples that were not listed have no neighbours to interpolate between; the slack keeps rounding from moving
        # a whole step.
        if self.resamples is None:
            # Without a list there is nothing to interpolate between; the slack keeps rounding from moving a whole step.
            index = int(np.searchsorted(self.cumulated, share * self.cumulated[-1] - ENOUGH, side="left"))
            return float(self.values[min(index, self.values.size - 1)])
        rank = (self.resamples - 1) * share
        low, high = self._value_at_rank(math.floor(rank)), self._value_at_rank(math.floor(rank) + 1)
        return low if low == high else low + (rank - math.floor(rank)) * (high - low)

    def _value_at_rank(self, rank: float) -> float:
        """Return the resample at this zero-based rank."""
        index = int(np.searchsorted(self.cumulated, rank, side="right"))
        return float(self.values[min(index, self.values.size - 1)])


def _slack(values: Array, *others: float) -> float:
    """Return how far apart two values may be and still count as one."""
    largest = float(max(abs(values[0]), abs(values[-1]))) if values.size else 0.0
    return TIE * max(largest, *(abs(other) for other in others), 0.0)


Cells = npt.NDArray[np.int64]

# Candidate steps are 1/k for these k: decimals, shares of up to sixty checks, powers of two.
PARTS = (*range(1, 61), 64, 72, 80, 90, 96, 100, 120, 125, 128, 200, 250, 256, 500, 512, 1000, 1024, 10_000, 100_000)
# The part of a step that a value may lie off its grid point: the noise of arithmetic, and no more.
OFF_GRID = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """values = origin + step * cells, with the largest possible step."""

    origin: float
    step: float
    cells: Cells


def find_grid(values: npt.ArrayLike, *, origin: float | None = None) -> Grid | None:
    """Return the coarsest grid that holds all values, or None.

    By default it starts at the smallest value. With `origin=0.0` the grid is one of differences, and cells may be
    negative.

    >>> grid = find_grid([0.25, 0.75, 1.0])
    >>> grid.step, grid.cells.tolist()
    (0.25, [0, 2, 3])
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


def _coarsest(start: float, step: float, distances: Array, cells: Cells) -> Grid:
    reduced = cells // (int(np.gcd.reduce(cells)) or 1)
    farthest = int(np.abs(distances).argmax())
    # The longest distance gives the most precise step: no rounding error of a single gap is multiplied.
    longest = abs(int(reduced[farthest]))
    return Grid(origin=start, step=abs(float(distances[farthest])) / longest if longest else step, cells=reduced)


# Up to this many differences all patterns are counted, from two lists of at most 2^17 sums: 10 ms.
MOST_SPLIT = 34
# Additions that the distribution on a grid may take: 50 ms.
MOST_STEPS = 100_000_000
# The window around 0 that a shortened distribution keeps leaves out a probability of at most 1e-18.
SURE = math.log(2e18)
# Tail shares that a shortened distribution resolves.
SHORTENED = 1e-15


def list_sums(differences: Array) -> Array:
    """Return the sums of all 2^n sign patterns, in no particular order.

    The shape is (2^n, k) for differences of k columns.

    >>> list_sums(np.array([1.0, 3.0])).tolist()
    [-4.0, -2.0, 2.0, 4.0]
    """
    sums = np.zeros((1, *differences.shape[1:]))
    for row in differences:
        sums = np.concatenate((sums - row, sums + row))
    return sums


def count_sums_at_least(differences: Array, threshold: float) -> int:
    """Return how many of the 2^n sign patterns have a sum >= threshold.

    Each pattern is one of the first half and one of the second, so that sorting 2^(n/2) sums is enough (the splitting
    of Horowitz & Sahni 1974).

    >>> count_sums_at_least(np.array([1.0, 3.0]), 2.0)
    2
    """
    half = differences.size // 2
    first, second = list_sums(differences[:half]), np.sort(list_sums(differences[half:]))
    # In order, the searches walk through the other list instead of jumping.
    first.sort()
    return int(np.sum(second.size - np.searchsorted(second, threshold - first, side="left")))


def compute_sign_flip_distribution(differences: npt.ArrayLike) -> Distribution | None:
    """Return the exact distribution of the sum under random signs, for differences on a grid, or None.

    None if it would take too long. The grid passes through 0 (multiples of 0.01, say). Each difference adds half of
    the distribution above and half below: only additions of probabilities, so that p-values keep their digits far below
    those of an FFT. Where the whole distribution is too long, sums more improbable than 1e-18 (Hoeffding 1963) are left
    out, and `resolution` is 1e-15.

    >>> distribution = compute_sign_flip_distribution([0.5, 1.0])
    >>> distribution.values.tolist(), distribution.weights.tolist()
    ([-1.5, -0.5, 0.5, 1.5], [0.25, 0.25, 0.25, 0.25])
    """
    array = finite(differences)
    grid = find_grid(array, origin=0.0)
    if grid is None:
        return None
    cells = np.sort(np.abs(grid.cells[grid.cells != 0]))
    whole, shortened = int(cells.sum()), math.ceil(math.sqrt(2 * SURE * float(np.sum(cells.astype(np.float64) ** 2))))
    reach = whole if whole * cells.size <= MOST_STEPS else min(whole, shortened)
    if reach * cells.size > MOST_STEPS:
        return None
    upper = _upper_half(cells, reach)
    (positions,) = np.nonzero(upper)
    mirrored = positions[positions > 0]
    values = np.asarray(grid.step * np.concatenate((-mirrored[::-1], positions)), dtype=np.float64)
    weights = np.concatenate((upper[mirrored][::-1], upper[positions]))
    return Distribution(values=values, weights=weights, resolution=0.0 if reach == whole else SHORTENED)


def draw_sums(differences: Array, flips: int, rng: np.random.Generator) -> Array:
    """Return sums under `flips` random sign patterns: (flips,), or (flips, k) for k columns.

    One random byte decides the signs of eight differences; their 256 possible sums are looked up.

    >>> sorted(set(draw_sums(np.array([1.0, 3.0]), 100, np.random.default_rng(0)).tolist()))
    [-4.0, -2.0, 2.0, 4.0]
    """
    bytes_needed = -(-len(differences) // 8)
    padded = np.zeros((bytes_needed * 8, *differences.shape[1:]))
    padded[: len(differences)] = differences
    sums = np.zeros((flips, *differences.shape[1:]))
    for eight in range(bytes_needed):
        patterns = np.frombuffer(rng.bytes(flips), dtype=np.uint8)
        sums += list_sums(padded[8 * eight : 8 * eight + 8]).take(patterns, axis=0)
    return sums


def _upper_half(cells: Cells, reach: int) -> Array:
    """Return P(sum = 0), P(sum = 1), ... P(sum = reach) of a distribution that is symmetric around 0."""
    mass, following = np.zeros(reach + int(cells.max(initial=0)) + 1), np.zeros(reach + int(cells.max(initial=0)) + 1)
    mass[0], top = 1.0, 0
    for cell in cells.tolist():
        top = min(reach, top + cell)
        # Below `cell`, the contribution of k - cell is that of its mirror image, cell - k.
        mirrored = min(cell, top + 1)
        np.add(mass[cell : cell + mirrored], mass[cell : cell - mirrored : -1], out=following[:mirrored])
        if top >= cell:
            np.add(mass[2 * cell : cell + top + 1], mass[: top + 1 - cell], out=following[cell : top + 1])
        following[: top + 1] *= 0.5
        mass, following = following, mass
    return mass[: reach + 1]
