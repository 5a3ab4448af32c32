"""The bootstrap of a mean, of single values or of clusters: without drawing wherever its law can be computed.

The t interval remains the default for means, and is the better one below about 50 observations: at n=10 the percentile
bootstrap errs in 13 % of zero-inflated data sets at a nominal 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Interval
from pytest_crucible.stats.means.point_mass import point_mass_interval
from pytest_crucible.stats.observations import (
    Array,
    Labels,
    Range,
    check_choice,
    check_share,
    cluster_codes,
    cluster_totals,
    finite,
    is_constant,
    is_finite_range,
)
from pytest_crucible.stats.resampling.bootstrapped import (
    Bootstrapped,
    Method,
    Source,
    answered,
    check_size,
    few_clusters_note,
)
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator, resampled_sums
from pytest_crucible.stats.resampling.exact_laws import (
    MOST_LISTED,
    bootstrap_law,
    every_resample,
    fine_bootstrap_law,
)
from pytest_crucible.stats.resampling.jackknife import summarised
from pytest_crucible.stats.resampling.law import Law, law_of_draws

NO_SPREAD = 1e-13
"""Mean squares below this, relative to the largest distance, are rounding: that resample has no spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    """What is resampled: single values, or whole clusters with their totals and sizes."""

    totals: Array
    sizes: Array
    even: bool
    """All of one size, so that the mean is the mean of the units' own means."""

    @property
    def means(self) -> Array:
        return np.asarray(self.totals / self.sizes, dtype=np.float64)

    @property
    def mean(self) -> float:
        return float(self.totals.sum() / self.sizes.sum())

    @property
    def without_each(self) -> Array:
        left = (self.totals.sum() - self.totals) / (self.sizes.sum() - self.sizes)
        return np.asarray(left, dtype=np.float64)


def bootstrap_mean(
    values: npt.ArrayLike,
    *,
    method: Method = "bca",
    level: float = 0.95,
    clusters: Labels | None = None,
    bounds: Range | None = None,
    draw: bool = False,
    resamples: int = 10_000,
    rng: Seed = 0,
) -> Bootstrapped:
    """Bootstrap interval for a mean; R: boot.ci(boot(values, mean)), without the Monte Carlo error.

    The law of the mean is listed (up to 8 values), computed exactly (scores on a grid) or computed on a fine grid (any
    others), all without a seed. Only the studentized method, clusters of unequal size and `draw=True` take `resamples`
    random ones. Clusters are resampled whole; below 20 of them the interval is too short (see `note`): prefer
    `clustered_interval`. Where nothing varies there is the point-mass interval if all possible values lie in finite
    `bounds`, and none otherwise. Raises NotEnoughData below two values or five clusters.

    >>> result = bootstrap_mean([0.2, 0.4, 0.4, 0.5, 0.7, 0.7, 0.8, 0.9, 0.9, 1.0])
    >>> round(result.interval.low, 2), round(result.interval.high, 2), result.source
    (0.48, 0.79, 'exact')
    """
    check_share(level, "level")
    check_choice(method, get_args(Method), "method")
    check_draws(resamples, "resamples")
    array = finite(values)
    units, count = _units(array, clusters)
    check_size(array.size, count)
    asked = Bootstrapped(estimate=units.mean, method=method, n=array.size, clusters=count)
    if is_constant(units.means):
        return _unvaried(asked, units.totals.size, bounds, level)
    generate, seed = generator(rng)
    if method == "studentized":
        drawn = replace(asked, source="resampled", resamples=resamples, seed=seed)
        return _studentized(drawn, units, level, resamples, generate)
    acceleration = summarised(units.mean, units.without_each).acceleration if method == "bca" else None
    source, law = _law(units, draw, resamples, generate)
    if source == "resampled":
        asked = replace(asked, resamples=resamples, seed=seed)
    return answered(replace(asked, acceleration=acceleration, source=source), law, level=level)


def _units(array: Array, clusters: Labels | None) -> tuple[_Units, int | None]:
    if clusters is None:
        return _Units(totals=array, sizes=np.ones(array.size), even=True), None
    codes, count = cluster_codes(clusters, array.size)
    sizes = np.bincount(codes).astype(np.float64)
    return _Units(totals=cluster_totals(codes, array), sizes=sizes, even=bool(np.all(sizes == sizes[:1]))), count


def _unvaried(asked: Bootstrapped, units: int, bounds: Range | None, level: float) -> Bootstrapped:
    known = bounds if is_finite_range(bounds) else None
    interval = None if known is None else point_mass_interval(asked.estimate, units, bounds=known, level=level)
    return replace(asked, interval=interval, status="degenerate", note="nothing varies: every resample is the same")


def _law(units: _Units, draw: bool, resamples: int, rng: np.random.Generator) -> tuple[Source, Law]:
    """The law of the mean, by the first way that these units allow."""
    if not draw and units.totals.size <= MOST_LISTED:
        picks, counts = every_resample(units.totals.size)
        return "enumerated", law_of_draws(units.totals[picks].sum(axis=1) / units.sizes[picks].sum(axis=1), counts)
    if draw or not units.even:
        return "resampled", law_of_draws(_drawn_means(units, resamples, rng))
    exact = bootstrap_law(units.means)
    return ("fine grid", fine_bootstrap_law(units.means)) if exact is None else ("exact", exact)


def _drawn_means(units: _Units, resamples: int, rng: np.random.Generator) -> Array:
    columns = np.stack([units.totals] if units.even else [units.totals, units.sizes])
    sums = resampled_sums(columns, resamples, rng)
    return np.asarray(sums[0] / (units.sizes.sum() if units.even else sums[1]), dtype=np.float64)


def _studentized(
    asked: Bootstrapped, units: _Units, level: float, resamples: int, rng: np.random.Generator
) -> Bootstrapped:
    """estimate - quantiles of (T* - T) / se* times se; R: boot.ci(type = "stud"). Hall (1988)."""
    distances = units.totals - units.mean * units.sizes
    scale = float(np.abs(distances).max())
    above, squares, total = _residual_sums(distances / scale, units, resamples, rng)
    squares[squares <= NO_SPREAD * units.totals.size] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num(above / np.sqrt(squares), nan=0.0, posinf=math.inf, neginf=-math.inf)
    # T* - T and se* share the divisor, the total size of the resample; the sample's own is `total`.
    se = math.sqrt(float(np.sum(distances**2))) / total
    law = law_of_draws(pivots)
    low, high = (asked.estimate - law.quantile((1 + sign * level) / 2) * se for sign in (1, -1))
    note = few_clusters_note(asked.clusters)
    interval = Interval(low=low, high=high, level=level, method="bootstrap studentized")
    if not (math.isfinite(low) and math.isfinite(high)):
        return replace(asked, se=se, status="degenerate", note="too many resamples without any spread: no interval")
    return replace(asked, se=se, interval=interval, note=note)


def _residual_sums(
    distances: Array, units: _Units, resamples: int, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Of each resample: the sum of distances from the sample's mean, and of squares from its own; the total size."""
    total = float(units.sizes.sum())
    if units.even:
        size, n = float(units.sizes[0]), units.sizes.size
        above, squares = resampled_sums(np.stack([distances, distances**2]), resamples, rng)
        return above, np.maximum(squares - above**2 / n, 0.0), size * n
    columns = np.stack([distances, units.sizes, distances**2, distances * units.sizes, units.sizes**2])
    above, sizes, squares, products, sizes_squared = resampled_sums(columns, resamples, rng)
    moved = above / sizes
    return above, np.maximum(squares - 2 * moved * products + moved**2 * sizes_squared, 0.0), total
