"""The sums of differences under sign patterns, listed or drawn, and the grid that scores lie on.

Under "candidate and baseline are exchangeable", each difference is as likely with the other sign, and all 2^n sign
patterns are equally likely. Two-decimal scores, Likert levels and shares of five checks lie on a grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, finite

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
