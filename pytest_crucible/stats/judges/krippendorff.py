"""Krippendorff's alpha: any number of raters, missing ratings, and nominal, ordinal, interval or ratio scales.

1 - observed / expected disagreement, both over all pairs of ratings that can be paired inside units.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.records import Interval
from pytest_crucible.stats.judges.agreement import MISSING, Agreement, Ratings, one_category, perfect, rating_codes
from pytest_crucible.stats.judges.disagreement import SCALES, Disagreement
from pytest_crucible.stats.observations import ROUNDING, Array, Codes, check_share, finite

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
"""How far two ratings lie apart: different or not, ranks between them, squared difference, squared relative one."""
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
    """Krippendorff's alpha of ratings raters x units, None or NaN where missing; units with one rating do not count.

    Krippendorff 2011, "Computing Krippendorff's alpha-reliability"; Python: krippendorff.alpha(ratings,
    level_of_measurement=scale). Interval: percentiles of the bootstrap over units (the expected disagreement is
    resampled with them, unlike in Hayes & Krippendorff 2007), seeded by `rng`. `levels` order categories that are not
    numbers. Raises ValueError for negative ratings on the ratio scale, NotEnoughData below 2 units with two ratings.

    >>> result = krippendorff_alpha([[1, 2, 3, 3, None], [1, 2, 3, 2, 1]], scale="ordinal")
    >>> round(result.value, 4), round(result.raw, 4)
    (0.79, 0.75)
    """
    check_share(level, "level")
    if scale not in SCALES:
        raise ValueError(f"the scale is one of these {len(SCALES)}: {', '.join(SCALES)}; not {scale!r}")
    if resamples < 100:
        raise ValueError(f"percentiles need at least 100 resamples, not {resamples}")
    codes, points = _paired_units(*rating_codes(ratings, levels=levels), scale)
    n, raw = codes.shape[1], _raw_agreement(codes, points.size)
    name = f"krippendorff alpha, {scale}"
    answer = Agreement(coefficient=name, raw=raw, observed=1.0, expected=1.0, units=n, raters=len(ratings))
    if points.size == 1:
        return one_category(answer)
    disagreement = SCALES[scale](codes, points)
    observed, expected = (float(part[0]) for part in disagreement.parts(np.ones((1, n))))
    largest = disagreement.largest
    answer = replace(answer, observed=1 - observed / largest, expected=1 - expected / largest)
    if raw == 1:
        return perfect(answer, level=level)
    alphas = _bootstrap(disagreement, n, resamples, np.random.default_rng(rng))
    seed = f", seed {rng}" if isinstance(rng, int) else ""
    return _with_percentiles(answer, 1 - observed / expected, alphas, level, resamples, seed)


def _paired_units(codes: Codes, categories: tuple[Hashable, ...], scale: Scale) -> tuple[Codes, Array]:
    """The units with two ratings or more, coded by the categories that are left, and these as numbers."""
    codes = codes[:, (codes != MISSING).sum(axis=0) >= 2]
    if codes.shape[1] < 2:
        raise NotEnoughData(f"{counted(codes.shape[1], 'unit')} with two ratings: alpha needs at least 2")
    given = codes != MISSING
    present, packed = np.unique(codes[given], return_inverse=True)
    repacked = np.full_like(codes, MISSING)
    repacked[given] = packed
    if scale in ("nominal", "ordinal"):
        return repacked, np.arange(present.size, dtype=np.float64)
    left = [categories[code] for code in present]
    words = sum(not isinstance(value, (int, float, np.number)) for value in left)
    if words:
        raise ValueError(f"{words} of {len(left)} categories are not numbers: the {scale} scale needs numbers")
    return repacked, finite(np.array(left, dtype=np.float64), name="ratings")


def _raw_agreement(codes: Codes, categories: int) -> float:
    """Equal pairs of ratings among all pairs, each unit weighing as much as it has ratings."""
    units, given = np.broadcast_to(np.arange(codes.shape[1]), codes.shape), codes != MISSING
    cells, counts = np.unique(units[given] * categories + codes[given], return_counts=True)
    sizes = given.sum(axis=0)
    same = counts * (counts - 1) / (sizes[cells // categories] - 1)
    disagreeing = np.bincount(cells // categories, minlength=sizes.size) > 1
    return float(same.sum() / sizes.sum()) if disagreeing.any() else 1.0


def _bootstrap(disagreement: Disagreement, n: int, resamples: int, rng: np.random.Generator) -> Array:
    """Alpha of each resample of the units; those in which all ratings are the same have none and are left out."""
    batch, alphas = max(1, _BATCH // n), []
    for start in range(0, resamples, batch):
        rows = min(batch, resamples - start)
        drawn = rng.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        observed, expected = disagreement.parts(weights)
        alphas.append(1 - observed[expected > 0] / expected[expected > 0])
    return np.concatenate(alphas)


def _with_percentiles(
    answer: Agreement, value: float, alphas: Array, level: float, resamples: int, seed: str
) -> Agreement:
    """The value with the percentiles of its resamples, which with a handful of units may lie to one side of it."""
    if alphas.size < resamples / 2:
        note = f"{resamples - alphas.size} of {resamples} resamples have one category only: no interval"
        return replace(answer, value=value, status="degenerate", note=note)
    if np.ptp(alphas) <= ROUNDING:
        return replace(answer, value=value, status="degenerate", note="all resamples have the same alpha: no interval")
    low, high = np.quantile(alphas, [(1 - level) / 2, (1 + level) / 2])
    method = f"percentile bootstrap over units, {resamples} resamples{seed}"
    interval = Interval(low=min(float(low), value), high=max(float(high), value), level=level, method=method)
    return replace(answer, value=value, interval=interval, se=float(alphas.std(ddof=1)))
