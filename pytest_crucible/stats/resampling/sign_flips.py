"""The sums that arise when every difference may change its sign: how many, how likely, or a random sample of them.

Under "candidate and baseline are exchangeable", each difference is as likely with the other sign, and all 2^n sign
patterns are equally likely. Three ways to their sums: two lists (exact up to 34 differences), a law on the grid of the
differences (exact for rounded scores), and random flips.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import Array, finite
from pytest_crucible.stats.resampling.grid import Cells, find_grid
from pytest_crucible.stats.resampling.law import Law

MOST_SPLIT = 34
"""Up to this many differences all patterns are counted, from two lists of at most 2^17 sums: 10 ms."""
MOST_STEPS = 100_000_000
"""Additions that the law on a grid may take: 50 ms."""
SURE = math.log(2e18)
"""The window around 0 that a shortened law keeps leaves out at most a probability of 1e-18."""
SHORTENED = 1e-15
"""Tail shares that a shortened law resolves."""


def every_sum(differences: Array) -> Array:
    """The sums of all 2^n sign patterns, in no particular order; (2^n, k) for differences of k columns.

    >>> every_sum(np.array([1.0, 3.0])).tolist()
    [-4.0, -2.0, 2.0, 4.0]
    """
    sums = np.zeros((1, *differences.shape[1:]))
    for row in differences:
        sums = np.concatenate((sums - row, sums + row))
    return sums


def count_at_least(differences: Array, threshold: float) -> int:
    """How many of the 2^n sign patterns have a sum >= threshold.

    Each pattern is one of the first half and one of the second, so that sorting 2^(n/2) sums is enough (the splitting
    of Horowitz & Sahni 1974).

    >>> count_at_least(np.array([1.0, 3.0]), 2.0)
    2
    """
    half = differences.size // 2
    first, second = every_sum(differences[:half]), np.sort(every_sum(differences[half:]))
    first.sort()  # in order, the searches walk through the other list instead of jumping
    return int(np.sum(second.size - np.searchsorted(second, threshold - first, side="left")))


def sign_flip_law(differences: npt.ArrayLike) -> Law | None:
    """The exact law of the sum under random signs, for differences on a grid; None where it would take too long.

    The grid is one through 0 (multiples of 0.01, say). Each difference adds half of the law above and half below: only
    additions of probabilities, so that p-values keep their digits far below those of an FFT. Where the whole law is too
    long, sums more improbable than 1e-18 (Hoeffding 1963) are left out, and `resolution` says 1e-15.

    >>> law = sign_flip_law([0.5, 1.0])
    >>> law.values.tolist(), law.weights.tolist()
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
    (seen,) = np.nonzero(upper)
    mirrored = seen[seen > 0]
    values = np.asarray(grid.step * np.concatenate((-mirrored[::-1], seen)), dtype=np.float64)
    weights = np.concatenate((upper[mirrored][::-1], upper[seen]))
    return Law(values=values, weights=weights, resolution=0.0 if reach == whole else SHORTENED)


def drawn_sums(differences: Array, flips: int, rng: np.random.Generator) -> Array:
    """Sums under `flips` random sign patterns: (flips,), or (flips, k) for differences of k columns.

    One random byte decides the signs of eight differences; the 256 sums that they can have are looked up.

    >>> sorted(set(drawn_sums(np.array([1.0, 3.0]), 100, np.random.default_rng(0)).tolist()))
    [-4.0, -2.0, 2.0, 4.0]
    """
    eights = -(-len(differences) // 8)
    padded = np.zeros((eights * 8, *differences.shape[1:]))
    padded[: len(differences)] = differences
    sums = np.zeros((flips, *differences.shape[1:]))
    for eight in range(eights):
        patterns = np.frombuffer(rng.bytes(flips), dtype=np.uint8)
        sums += every_sum(padded[8 * eight : 8 * eight + 8]).take(patterns, axis=0)
    return sums


def _upper_half(cells: Cells, reach: int) -> Array:
    """P(sum = 0), P(sum = 1), ... P(sum = reach) of a law that is symmetric around 0."""
    law, moved = np.zeros(reach + int(cells.max(initial=0)) + 1), np.zeros(reach + int(cells.max(initial=0)) + 1)
    law[0], top = 1.0, 0
    for cell in cells.tolist():
        top = min(reach, top + cell)
        mirrored = min(cell, top + 1)  # below `cell`, what comes from k - cell comes from the mirror image of cell - k
        np.add(law[cell : cell + mirrored], law[cell : cell - mirrored : -1], out=moved[:mirrored])
        if top >= cell:
            np.add(law[2 * cell : cell + top + 1], law[: top + 1 - cell], out=moved[cell : top + 1])
        moved[: top + 1] *= 0.5
        law, moved = moved, law
    return law[: reach + 1]
