"""A search for slices in which the difference between two arms is unlike that elsewhere: max-T over permutations.

Of 75 slices one looks unusual by chance in 91 % of suites. So each slice's inside-minus-outside difference is studentised (Welch),
and compared with the largest of all slices under permutations of the samples' differences (Westfall & Young 1993; studentised, so
that slices of unequal difficulty keep the error rate: Chung & Romano 2013, Ann. Stat. 41:484). Groups are permuted whole, and their
errors are those of groups.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.resampling.draws import Seed, generator

PERMUTATIONS = 2_000
GROUPED_PERMUTATIONS = 499
"""Groups cost as much as forty single samples, because the errors of each permutation are those of its groups."""
FEWEST = 20
"""Samples inside and outside of a slice that is searched."""
# A slice's variance gets as much weight of the variance of all samples: in twenty samples of yes or no nothing may vary by chance.
PRIOR_DOF = 2.0
# Permutations that are held at once: 10,000 samples in single precision are 8 MB.
_CHUNK = 200

Flags = npt.NDArray[np.bool_]
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSlice:
    """A slice, by its column. Differences are means over samples of candidate minus baseline."""

    column: int
    inside: float
    outside: float
    n: int
    excess: float
    """Inside minus outside."""
    low: float
    high: float
    """Joint interval of the excess: those of all slices hold together."""
    statistic: float
    p_adjusted: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSearch:
    """All searched slices, most unusual first."""

    slices: tuple[SearchedSlice, ...]
    permutations: int
    seed: int | None
    n: int
    groups: int | None


def search_slices(
    differences: Array,
    members: Flags,
    *,
    groups: Codes | None = None,
    alpha: float = 0.05,
    permutations: int | None = None,
    rng: Seed = 0,
) -> SliceSearch:
    """Return each slice's inside-minus-outside difference, with p-values and intervals that hold for all slices.

    `differences` has one entry a sample, `members` is samples x slices. Slices with fewer than FEWEST samples inside or outside are
    left out by the caller. p = (1 + permutations whose largest |t| is at least as large) / (1 + permutations).
    """
    permutations = permutations or (PERMUTATIONS if groups is None else GROUPED_PERMUTATIONS)
    generate, seed = generator(rng)
    count = members.shape[1]
    if not count or len(differences) < 2:
        return SliceSearch(slices=(), permutations=permutations, seed=seed, n=len(differences), groups=None)
    inside = members.astype(np.float32)
    blocks = None
    if groups is not None:
        order = np.argsort(groups, kind="stable")
        blocks = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
        differences, inside = differences[order], inside[order]
    # In single precision the squares of 1e20 are infinite, and those of 1e-23 are 0: t has no unit.
    scale = float(np.abs(differences - differences.mean()).max()) or 1.0
    centred = ((differences - differences.mean()) / scale).astype(np.float32)
    sizes = None if blocks is None else np.array([len(block) for block in blocks])
    observed, errors = _statistics(centred[None, :], inside, sizes)
    largest = _null_maxima(centred, inside, sizes, permutations, generate)
    margins = scale * float(np.quantile(largest, 1 - alpha, method="higher")) * errors[0].astype(np.float64)
    n_inside = inside.sum(axis=0)
    means = differences @ inside / n_inside
    others = (differences.sum() - differences @ inside) / (len(differences) - n_inside)
    beyond = (largest[:, None] >= np.abs(observed[0])[None, :] - 1e-6).sum(axis=0)
    slices = [
        SearchedSlice(
            column=column,
            inside=float(means[column]),
            outside=float(others[column]),
            n=int(n_inside[column]),
            excess=float(means[column] - others[column]),
            low=float(means[column] - others[column] - margins[column]),
            high=float(means[column] - others[column] + margins[column]),
            statistic=float(observed[0, column]),
            p_adjusted=float((1 + beyond[column]) / (1 + permutations)),
        )
        for column in range(count)
    ]
    return SliceSearch(
        slices=tuple(sorted(slices, key=lambda each: (-abs(each.statistic), each.column))),
        permutations=permutations,
        seed=seed,
        n=len(differences),
        groups=None if sizes is None else len(sizes),
    )


def _null_maxima(
    centred: Singles, inside: Singles, sizes: Codes | None, permutations: int, rng: np.random.Generator
) -> Array:
    """Return the largest |t| of each permutation."""
    maxima = []
    for start in range(0, permutations, _CHUNK):
        size = min(_CHUNK, permutations - start)
        if sizes is None:
            shuffled = rng.permuted(np.broadcast_to(centred, (size, len(centred))), axis=1)
            maxima.append(np.abs(_statistics(shuffled, inside, None)[0]).max(axis=1))
        else:
            maxima += [_permute_groups(centred, inside, sizes, rng) for _ in range(size)]
    return np.concatenate([np.atleast_1d(each) for each in maxima]).astype(np.float64)


def _permute_groups(centred: Singles, inside: Singles, sizes: Codes, rng: np.random.Generator) -> float:
    """Return the largest |t| when whole groups change places: the differences of a group stay together, in their order."""
    order = rng.permutation(len(sizes))
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    shuffled = np.concatenate([centred[starts[group] : starts[group] + sizes[group]] for group in order])
    return float(np.abs(_statistics(shuffled[None, :], inside, sizes[order])[0]).max())


def _statistics(values: Singles, inside: Singles, sizes: Codes | None) -> tuple[Array, Array]:
    """Return the studentised differences and their standard errors: rows of values x slices. `sizes` are those of groups."""
    n = values.shape[1]
    n_in = inside.sum(axis=0)
    n_out = n - n_in
    sums = values @ inside
    totals = values.sum(axis=1, keepdims=True)
    means, others = sums / n_in, (totals - sums) / n_out
    if sizes is not None:
        variance = _group_variance(values[0], inside, sizes, means[0], others[0])[None, :]
    else:
        squares = (values * values) @ inside
        rest = (values * values).sum(axis=1, keepdims=True) - squares
        pooled = (values * values).mean(axis=1, keepdims=True)
        variance = _shrunk(squares - n_in * means**2, n_in, pooled) / n_in
        variance = variance + _shrunk(rest - n_out * others**2, n_out, pooled) / n_out
    errors = np.sqrt(np.maximum(variance, 1e-30))
    return np.where(variance > 1e-20, (means - others) / errors, 0.0), errors


def _shrunk(squares: Array, n: Array, pooled: Array) -> Array:
    return np.asarray((np.maximum(squares, 0.0) + PRIOR_DOF * pooled) / (n - 1 + PRIOR_DOF))


def _group_variance(values: Singles, inside: Singles, sizes: Codes, mean_in: Array, mean_out: Array) -> Array:
    """Return the variance of the differences from the sums of groups (Liang & Zeger), times G / (G - 1)."""
    n_in = inside.sum(axis=0)
    n_out = len(values) - n_in
    sums, counts = _group_sums(values, inside, sizes), _group_sums(np.ones_like(values), inside, sizes)
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    all_sums = np.add.reduceat(values, starts)[:, None]
    totals = (sums - mean_in * counts) / n_in - (all_sums - sums - mean_out * (sizes[:, None] - counts)) / n_out
    count = len(sizes)
    floor = PRIOR_DOF * float((values * values).mean()) * (1 / n_in + 1 / n_out) / math.sqrt(len(values))
    return np.asarray((totals**2).sum(axis=0) * count / max(count - 1, 1) + floor / math.sqrt(len(values)))


def _group_sums(values: Singles, inside: Singles, sizes: Codes) -> Array:
    """Return the sum of the values in each group (rows) and slice (columns)."""
    if (sizes == sizes[0]).all():
        shape = len(sizes), int(sizes[0])
        return np.asarray(np.einsum("gm,gms->gs", values.reshape(shape), inside.reshape(*shape, -1)))
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return np.asarray(np.add.reduceat(inside * values[:, None], starts, axis=0))
