"""Cohen's kappa: two raters, the same units, nominal or (weighted) ordinal categories."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from scipy.special import ndtri

from pytest_crucible.stats.agreement.coefficients import (
    MISSING,
    Agreement,
    Transform,
    Weights,
    add_interval,
    agreement_weights,
    check_transform,
    mark_undefined,
    rating_codes,
)
from pytest_crucible.stats.arrays import ROUNDING, Array, Labels, check_share
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity


def cohen_kappa(
    rater1: Labels,
    rater2: Labels,
    *,
    weights: Weights = "none",
    levels: Sequence[Hashable] | None = None,
    level: float = 0.95,
    transform: Transform = "fisher",
) -> Agreement:
    """Return Cohen's kappa with the standard error of Fleiss, Cohen & Everitt (1969) and its interval.

    (observed - expected) / (1 - expected) agreement, expected from each rater's own shares. `weights` count from the
    positions in `levels` (by default the sorted categories that occur). R: confint(vcd::Kappa(table, weights)), with
    transform="none". Kappa falls with lopsided categories even where raters agree: read it beside `raw`, or see
    `gwet_ac1`. Raises ValueError for raters of unequal length and for missing ratings (`krippendorff_alpha` takes
    them), NotEnoughData below 2 units.

    >>> result = cohen_kappa([1, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 1])
    >>> round(result.value, 4), round(result.raw, 4)
    (0.3333, 0.6667)
    """
    check_share(level, "level")
    check_transform(transform)
    codes, categories = rating_codes([rater1, rater2], levels=levels)
    n, missing = codes.shape[1], int((codes == MISSING).sum())
    if missing:
        raise ValueError(f"{missing} of {codes.size} ratings are missing: drop their units or use krippendorff_alpha")
    if n < 2:
        raise NotEnoughData(f"{quantity(n, 'unit')}: agreement needs at least 2")
    size = len(categories)
    # The square table of both raters' categories, as shares of the units.
    shares = np.bincount(codes[0] * size + codes[1], minlength=size * size).reshape(size, size) / n
    name = "cohen kappa" if weights == "none" else f"cohen kappa, {weights} weights"
    return _kappa(name, shares, agreement_weights(size, weights), n, level, transform)


def _kappa(name: str, shares: Array, weights: Array, n: int, level: float, transform: Transform) -> Agreement:
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float((weights * shares).sum()), float(rows @ weights @ columns)
    raw = float(np.trace(shares))
    result = Agreement(coefficient=name, raw=raw, observed=observed, expected=expected, units=n, raters=2)
    if expected >= 1 - ROUNDING:
        return mark_undefined(result)
    value = (observed - expected) / (1 - expected)
    se = _standard_error(shares, weights, rows, columns, n)
    quantile = float(ndtri(0.5 + level / 2))
    return add_interval(result, value, se, quantile, level=level, method="fleiss-cohen-everitt", transform=transform)


def _standard_error(shares: Array, weights: Array, rows: Array, columns: Array, n: int) -> float:
    """Return the standard error of Fleiss, Cohen & Everitt 1969: the delta method over the table's cells."""
    observed, expected = float((weights * shares).sum()), float(rows @ weights @ columns)
    mean_weights = np.add.outer(weights @ columns, rows @ weights)
    terms = weights * (1 - expected) - mean_weights * (1 - observed)
    centre = observed * expected - 2 * expected + observed
    variance = float((shares * terms**2).sum()) - centre**2
    # Rounding may leave a variance of 0 slightly negative.
    return math.sqrt(max(variance, 0.0) / n) / (1 - expected) ** 2
