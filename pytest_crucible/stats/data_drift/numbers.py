"""Drift of a field of numbers: the two-sample Kolmogorov-Smirnov test."""

from __future__ import annotations

import math
import warnings

import numpy as np
import numpy.typing as npt

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.data_drift.result import FieldDrift

# E sup |F_n - F| sqrt(n) is at most the integral of the bound of Dvoretzky, Kiefer & Wolfowitz (Massart 1990), 2 exp(-2 x^2).
_MEAN_SUPREMUM = math.sqrt(math.pi / 2)


def compare_numbers(old: npt.ArrayLike, new: npt.ArrayLike) -> FieldDrift:
    """Return the Kolmogorov-Smirnov test of two samples of numbers, as `scipy.stats.ks_2samp` computes it.

    The p-value is exact for at most 10,000 values in each sample, otherwise asymptotic; ties make it larger. Raises
    NotEnoughData for fewer than two values in either sample.
    """
    first, second = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    if min(len(first), len(second)) < 2:
        raise NotEnoughData("a comparison needs at least 2 values in each sample")
    with warnings.catch_warnings():
        # Of an exact p-value that is too small to be computed: scipy returns the asymptotic one.
        warnings.simplefilter("ignore", RuntimeWarning)
        # It takes a second to import, and most sessions compare no columns.
        from scipy import stats

        result = stats.ks_2samp(first, second)
    noise = _MEAN_SUPREMUM * (1 / math.sqrt(len(first)) + 1 / math.sqrt(len(second)))
    return FieldDrift(
        test="Kolmogorov-Smirnov",
        statistic=float(result.statistic),
        p_value=min(1.0, float(result.pvalue)),
        n=(len(first), len(second)),
        distance=float(result.statistic),
        noise=noise,
    )
