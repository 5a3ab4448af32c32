"""Several metrics on the same samples, tested together: step-down max-T by joint sign flips.

Flipping whole rows keeps the correlation between metrics, so that metrics that measure nearly the same cost nearly
nothing, where Holm charges for each. The family-wise error is controlled in the strong sense when the arms are
exchangeable within each sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    Labels,
    check_alternative,
    cluster_codes,
    cluster_totals,
    finite_matrix,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import p_value, quantity
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.resampling.sign_flips import draw_sums, list_sums

# Sums (patterns x metrics) up to which every sign pattern is taken: 16 MB.
MOST_LISTED = 2_000_000
# Statistics closer than this are ties, and ties count as extreme.
TIE = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxT:
    """Raw and family-wise adjusted p-values, in the order of the metrics."""

    statistics: tuple[float | None, ...]
    """One-sample t of each metric's differences; None if they do not vary."""
    p_values: tuple[float, ...]
    p_adjusted: tuple[float, ...]
    alternative: Alternative
    exact: bool
    arrangements: float
    seed: int | None = None
    n: int
    clusters: int | None = None

    def __str__(self) -> str:
        source = "exact" if self.exact else f"{self.arrangements:,.0f} random sign flips"
        return f"adjusted p {', '.join(map(p_value, self.p_adjusted))}, n={self.n:,} (step-down max-t, {source})"


def step_down_max_t(
    differences: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    clusters: Labels | None = None,
    flips: int = 10_000,
    rng: Seed = 0,
) -> MaxT:
    """Return Westfall & Young's step-down max-T over the columns of samples x metrics differences.

    Westfall & Young (1993), algorithm 2.8 with |t| under joint sign flips of the rows: the j-th largest statistic is
    compared with the largest of those that are not larger, and adjusted p-values are made to ascend. All 2^n patterns
    where they are few enough, else `flips` random ones and p = (1 + #) / (1 + flips). Clusters flip whole, and t is
    that of their totals. A metric without any difference has p = 1. Raises NotEnoughData below two rows or clusters.

    >>> result = step_down_max_t([[0.3, 0.2], [0.1, -0.1], [0.4, 0.1], [0.2, 0.3]])
    >>> result.p_values, result.p_adjusted
    ((0.125, 0.375), (0.125, 0.375))
    """
    check_alternative(alternative)
    matrix = finite_matrix(differences, rows="samples", columns="metrics")
    check_draws(flips, "flips")
    units, count = matrix, None
    if clusters is not None:
        codes, count = cluster_codes(clusters, len(matrix))
        units = np.stack([cluster_totals(codes, column) for column in matrix.T], axis=1)
    if len(units) < 2:
        raise NotEnoughData(
            f"{quantity(len(units), 'row' if count is None else 'cluster')}: t statistics need at least 2"
        )
    scaled = _unit_length(units)
    exact = len(units) < 30 and 2 ** len(units) * units.shape[1] <= MOST_LISTED
    generate, seed = generator(rng)
    sums = list_sums(scaled) if exact else draw_sums(scaled, flips, generate)
    raw, adjusted = _p_values(_towards(sums, alternative), _towards(scaled.sum(axis=0), alternative), exact)
    return MaxT(
        statistics=tuple(_t(column) for column in scaled.T),
        p_values=raw,
        p_adjusted=adjusted,
        alternative=alternative,
        exact=exact,
        arrangements=float(len(sums)),
        seed=None if exact else seed,
        n=len(matrix),
        clusters=count,
    )


def _unit_length(units: Array) -> Array:
    """Return the columns scaled to length 1.

    No flip changes the length, so t ascends with the sum: t^2 = (n - 1) r^2 / (n - r^2).
    """
    largest = np.abs(units).max(axis=0)
    scaled = units / np.where(largest > 0, largest, 1.0)
    length = np.sqrt(np.sum(scaled**2, axis=0))
    return np.asarray(scaled / np.where(length > 0, length, 1.0), dtype=np.float64)


def _t(column: Array) -> float | None:
    """Return t of a column of length 1; None when it is constant."""
    n, total = column.size, float(column.sum())
    rest = n - total * total
    return total * math.sqrt((n - 1) / rest) if column.any() and rest > 1e-12 * n else None


def _towards(sums: Array, alternative: Alternative) -> Array:
    return np.abs(sums) if alternative == "two-sided" else sums if alternative == "greater" else -sums


def _p_values(sums: Array, observed: Array, exact: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return raw and adjusted p-values.

    The observed pattern is one of all exact ones, and is added to random ones.
    """
    order = np.argsort(-observed, kind="stable")
    # From the smallest statistic upwards: the largest among those that are not larger than each.
    successive = np.maximum.accumulate(sums[:, order[::-1]], axis=1)[:, ::-1]
    added = 0 if exact else 1
    raw = (np.sum(sums >= observed - TIE, axis=0) + added) / (len(sums) + added)
    stepped = (np.sum(successive >= observed[order] - TIE, axis=0) + added) / (len(sums) + added)
    adjusted = np.empty_like(stepped)
    adjusted[order] = np.maximum.accumulate(stepped)
    return tuple(raw.tolist()), tuple(adjusted.tolist())
