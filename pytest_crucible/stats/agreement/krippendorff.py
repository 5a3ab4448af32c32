"""Krippendorff's alpha: any number of raters, missing ratings, and nominal, ordinal, interval or ratio scales.

Alpha is 1 - observed / expected disagreement, both over all pairs of ratings within units that have two or more.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pytest_crucible.stats.agreement.coefficients import (
    MISSING,
    Agreement,
    Ratings,
    complete_perfect_agreement,
    mark_undefined,
    rating_codes,
)
from pytest_crucible.stats.agreement.disagreement import SCALES, Disagreement
from pytest_crucible.stats.arrays import ROUNDING, Array, Codes, check_share, finite
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
"""The distance of two ratings: different or not, ranks between them, squared difference, squared relative one."""
# Weights held at once: 16 MB.
_BATCH = 2_000_000


def krippendorff_alpha(
    ratings: Ratings,
    *,
    scale: Scale = "nominal",
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    rng: int | np.random.Generator = 0,
) -> Agreement:
    """Return Krippendorff's alpha of ratings raters x units, None or NaN if missing.

    Units with one rating do not count. Krippendorff 2011, "Computing Krippendorff's alpha-reliability"; Python:
    krippendorff.alpha(ratings, level_of_measurement=scale). Interval: percentiles of the bootstrap over units (the
    expected disagreement is resampled with them, unlike in Hayes & Krippendorff 2007), seeded by `rng`. `levels` order
    categories that are not numbers. Raises ValueError for negative ratings on the ratio scale, NotEnoughData below 2
    units with two ratings.

    >>> result = krippendorff_alpha([[1, 2, 3, 3, None], [1, 2, 3, 2, 1]], scale="ordinal")
    >>> round(result.value, 4), round(result.raw, 4)
    (0.79, 0.75)
    """
    check_share(level, "level")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}")
    if resamples < 100:
        raise ValueError(f"resamples must be at least 100, not {resamples}")
    codes, points = _paired_units(*rating_codes(ratings, levels=levels), scale)
    n, raw = codes.shape[1], _raw_agreement(codes, points.size)
    name = f"krippendorff alpha, {scale}"
    result = Agreement(coefficient=name, raw=raw, observed=1.0, expected=1.0, units=n, raters=len(ratings))
    if points.size == 1:
        return mark_undefined(result)
    disagreement = SCALES[scale](codes, points)
    observed, expected = (float(part[0]) for part in disagreement.parts(np.ones((1, n))))
    largest = disagreement.largest
    result = replace(result, observed=1 - observed / largest, expected=1 - expected / largest)
    # Every resample of perfect agreement is perfect: percentiles would claim certainty.
    if raw == 1:
        return complete_perfect_agreement(result, level=level)
    alphas = _bootstrap(disagreement, n, resamples, np.random.default_rng(rng))
    seed = f", seed {rng}" if isinstance(rng, int) else ""
    return _with_percentiles(result, 1 - observed / expected, alphas, level, resamples, seed)


def _paired_units(codes: Codes, categories: tuple[Hashable, ...], scale: Scale) -> tuple[Codes, Array]:
    """Return the units with two or more ratings, recoded by the remaining categories, and these as numbers."""
    codes = codes[:, (codes != MISSING).sum(axis=0) >= 2]
    if codes.shape[1] < 2:
        raise NotEnoughData(f"{quantity(codes.shape[1], 'unit')} with two ratings: alpha needs at least 2")
    rated = codes != MISSING
    present, packed = np.unique(codes[rated], return_inverse=True)
    repacked = np.full_like(codes, MISSING)
    repacked[rated] = packed
    if scale in ("nominal", "ordinal"):
        return repacked, np.arange(present.size, dtype=np.float64)
    categories_left = [categories[code] for code in present]
    not_numbers = sum(not isinstance(value, (int, float, np.number)) for value in categories_left)
    if not_numbers:
        raise ValueError(
            f"{not_numbers} of {len(categories_left)} categories are not numbers: the {scale} scale needs numbers"
        )
    return repacked, finite(np.array(categories_left, dtype=np.float64), name="ratings")


def _raw_agreement(codes: Codes, categories: int) -> float:
    """Return the share of equal pairs of ratings, with units weighted by their number of ratings."""
    units, rated = np.broadcast_to(np.arange(codes.shape[1]), codes.shape), codes != MISSING
    cells, counts = np.unique(units[rated] * categories + codes[rated], return_counts=True)
    sizes = rated.sum(axis=0)
    same = counts * (counts - 1) / (sizes[cells // categories] - 1)
    disagreeing = np.bincount(cells // categories, minlength=sizes.size) > 1
    return float(same.sum() / sizes.sum()) if disagreeing.any() else 1.0


def _bootstrap(disagreement: Disagreement, n: int, resamples: int, rng: np.random.Generator) -> Array:
    """Return alpha of each resample of the units.

    Resamples in which all ratings are the same have no alpha and are left out.
    """
    batch, alphas = max(1, _BATCH // n), []
    for start in range(0, resamples, batch):
        rows = min(batch, resamples - start)
        # Offsetting each row lets one bincount count the draws of all rows.
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        observed, expected = disagreement.parts(weights)
        alphas.append(1 - observed[expected > 0] / expected[expected > 0])
    return np.concatenate(alphas)


def _with_percentiles(
    result: Agreement, value: float, alphas: Array, level: float, resamples: int, seed: str
) -> Agreement:
    """Return the value with the percentiles of its resamples.

    With a handful of units both may lie on one side of the value.
    """
    # An interval from fewer than half of the resamples would describe the lucky half.
    if alphas.size < resamples / 2:
        note = f"{resamples - alphas.size} of {resamples} resamples have one category only: no interval"
        return replace(result, value=value, status="degenerate", note=note)
    if np.ptp(alphas) <= ROUNDING:
        return replace(result, value=value, status="degenerate", note="all resamples have the same alpha: no interval")
    low, high = np.quantile(alphas, [(1 - level) / 2, (1 + level) / 2])
    method = f"percentile bootstrap over units, {resamples} resamples{seed}"
    interval = Interval(low=min(float(low), value), high=max(float(high), value), level=level, method=method)
    return replace(result, value=value, interval=interval, se=float(alphas.std(ddof=1)))
