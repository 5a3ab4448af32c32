"""The sums of differences under all sign patterns: counted, as a distribution, or a random sample of them.

Under "candidate and baseline are exchangeable", each difference is as likely with the other sign, and all 2^n sign
patterns are equally likely. Three ways to their sums: two lists (exact up to 34 differences), a distribution on the
grid of the differences (exact for rounded scores), and random flips.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, finite
from pytest_crucible.stats.resampling.distribution import Distribution
from pytest_crucible.stats.resampling.grid import Cells, find_grid

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
