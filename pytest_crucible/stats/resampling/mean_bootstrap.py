"""The bootstrap of a mean, of single values or of clusters: computed without drawing wherever possible.

The t interval remains the default for means, and is the better one below about 50 observations: at n=10 the percentile
bootstrap errs in 13 % of zero-inflated data sets at a nominal 5 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
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
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.point_mass import point_mass_interval
from pytest_crucible.stats.resampling.bootstrap_result import (
    BootstrapResult,
    Method,
    Source,
    check_size,
    complete_result,
    few_clusters_note,
)
from pytest_crucible.stats.resampling.distribution import Distribution, tabulate_draws
from pytest_crucible.stats.resampling.draws import Seed, check_draws, draw_resampled_sums, generator
from pytest_crucible.stats.resampling.exact_distributions import (
    MOST_LISTED,
    approximate_bootstrap_distribution,
    compute_bootstrap_distribution,
    list_resamples,
)
from pytest_crucible.stats.resampling.jackknife import summarise_replicates

# Mean squares below this, relative to the largest distance, are rounding: the resample has no spread.
NO_SPREAD = 1e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    """The units that are resampled: single values, or whole clusters with their totals and sizes."""

    totals: Array
    sizes: Array
    even: bool
    """True when all units have one size, so that the mean is the mean of the units' own means."""

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
) -> BootstrapResult:
    """Return the bootstrap interval for a mean.

    R: boot.ci(boot(values, mean)), without the Monte Carlo error. The distribution of the mean is listed (up to 8
    values), computed exactly (scores on a grid) or computed on a fine grid (any others), all without a seed. Only the
    studentized method, clusters of unequal size and `draw=True` take `resamples` random ones. Clusters are resampled
    whole; below 20 of them the interval is too short (see `note`): prefer `clustered_interval`. Where nothing varies
    the result is the point-mass interval if all possible values lie in finite `bounds`, and no interval otherwise.
    Raises NotEnoughData below two values or five clusters.

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
    request = BootstrapResult(estimate=units.mean, method=method, n=array.size, clusters=count)
    if is_constant(units.means):
        return _result_without_variation(request, units.totals.size, bounds, level)
    generate, seed = generator(rng)
    if method == "studentized":
        pending = replace(request, source="resampled", resamples=resamples, seed=seed)
        return _studentize(pending, units, level, resamples, generate)
    acceleration = summarise_replicates(units.mean, units.without_each).acceleration if method == "bca" else None
    source, distribution = _choose_distribution(units, draw, resamples, generate)
    if source == "resampled":
        request = replace(request, resamples=resamples, seed=seed)
    return complete_result(replace(request, acceleration=acceleration, source=source), distribution, level=level)


def _units(array: Array, clusters: Labels | None) -> tuple[_Units, int | None]:
    if clusters is None:
        return _Units(totals=array, sizes=np.ones(array.size), even=True), None
    codes, count = cluster_codes(clusters, array.size)
    sizes = np.bincount(codes).astype(np.float64)
    return _Units(totals=cluster_totals(codes, array), sizes=sizes, even=bool(np.all(sizes == sizes[:1]))), count


def _result_without_variation(
    request: BootstrapResult, units: int, bounds: Range | None, level: float
) -> BootstrapResult:
    finite_bounds = bounds if is_finite_range(bounds) else None
    interval = (
        None
        if finite_bounds is None
        else point_mass_interval(request.estimate, units, bounds=finite_bounds, level=level)
    )
    return replace(request, interval=interval, status="degenerate", note="nothing varies: every resample is the same")


def _choose_distribution(
    units: _Units, draw: bool, resamples: int, rng: np.random.Generator
) -> tuple[Source, Distribution]:
    """Return the distribution of the mean, by the first way that these units allow."""
    if not draw and units.totals.size <= MOST_LISTED:
        picks, counts = list_resamples(units.totals.size)
        return "enumerated", tabulate_draws(units.totals[picks].sum(axis=1) / units.sizes[picks].sum(axis=1), counts)
    if draw or not units.even:
        return "resampled", tabulate_draws(_draw_means(units, resamples, rng))
    exact = compute_bootstrap_distribution(units.means)
    return ("fine grid", approximate_bootstrap_distribution(units.means)) if exact is None else ("exact", exact)


def _draw_means(units: _Units, resamples: int, rng: np.random.Generator) -> Array:
    columns = np.stack([units.totals] if units.even else [units.totals, units.sizes])
    sums = draw_resampled_sums(columns, resamples, rng)
    return np.asarray(sums[0] / (units.sizes.sum() if units.even else sums[1]), dtype=np.float64)


def _studentize(
    request: BootstrapResult, units: _Units, level: float, resamples: int, rng: np.random.Generator
) -> BootstrapResult:
    """Return the studentized interval: estimate - quantiles of (T* - T) / se* times se.

    R: boot.ci(type = "stud"). Hall (1988).
    """
    distances = units.totals - units.mean * units.sizes
    scale = float(np.abs(distances).max())
    above, squares, total = _residual_sums(distances / scale, units, resamples, rng)
    squares[squares <= NO_SPREAD * units.totals.size] = 0.0
    # A resample without spread has an infinite pivot, which the quantiles below handle.
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num(above / np.sqrt(squares), nan=0.0, posinf=math.inf, neginf=-math.inf)
    # T* - T and se* share the divisor, the total size of the resample, so it cancels; the sample's own is `total`.
    se = math.sqrt(float(np.sum(distances**2))) / total
    distribution = tabulate_draws(pivots)
    low, high = (request.estimate - distribution.quantile((1 + sign * level) / 2) * se for sign in (1, -1))
    note = few_clusters_note(request.clusters)
    interval = Interval(low=low, high=high, level=level, method="bootstrap studentized")
    if not (math.isfinite(low) and math.isfinite(high)):
        return replace(request, se=se, status="degenerate", note="too many resamples without any spread: no interval")
    return replace(request, se=se, interval=interval, note=note)


def _residual_sums(
    distances: Array, units: _Units, resamples: int, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Return each resample's sum of distances and residual sum of squares, and the total size.

    Distances are from the mean of the sample, residuals from the mean of the resample.
    """
    total = float(units.sizes.sum())
    if units.even:
        size, n = float(units.sizes[0]), units.sizes.size
        above, squares = draw_resampled_sums(np.stack([distances, distances**2]), resamples, rng)
        return above, np.maximum(squares - above**2 / n, 0.0), size * n
    columns = np.stack([distances, units.sizes, distances**2, distances * units.sizes, units.sizes**2])
    above, sizes, squares, products, sizes_squared = draw_resampled_sums(columns, resamples, rng)
    shift = above / sizes
    return above, np.maximum(squares - 2 * shift * products + shift**2 * sizes_squared, 0.0), total
