"""Variance components of repeated samples, and the effect of more repeats or more samples on the standard error.

Score of sample s in repeat k = mean + sample_s + noise_sk (Miller 2024, sec. 3). The sample is the unit: treating
repeats as samples raises false positives to 15 % (five repeats) and 25 % (ten).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes, finite, is_constant
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.means.one_way import OneWay, one_way
from pytest_crucible.stats.number_format import number, quantity

Repeats = Sequence[Sequence[float]] | npt.NDArray[np.float64]
"""The repeats of each sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponents:
    """The variance components of a mean over samples. Fields are None if one repeat per sample cannot determine them."""

    mean: float
    """Mean of the samples' means."""
    between: float | None
    """Variance of the samples' true means. Negative when they differ less than their noise explains."""
    within: float | None
    """Variance of the repeats of one sample."""
    icc: float | None
    """between / (between + within): the share of a single score's variance that the sample explains."""
    se: float
    """Standard error of the mean, from the samples' means; 0 when they are all equal."""
    se_single: float | None
    """Expected standard error with one repeat per sample."""
    se_repeats_doubled: float | None
    """Expected standard error with twice the repeats; never below sqrt(between / samples)."""
    se_samples_doubled: float
    """Expected standard error with twice the samples."""
    samples: int
    repeats: int

    def __str__(self) -> str:
        variances = f"between {number(self.between)}, within {number(self.within)}, icc {number(self.icc)}"
        size = f"samples={self.samples:,}, repeats={self.repeats:,}"
        return f"{number(self.mean)}, se {number(self.se)}; variance {variances}, {size}"


def variance_components(groups: Repeats) -> VarianceComponents:
    """Return the variance between and within samples, from a list of repeats for each sample.

    They are moment estimates, and REML ones (R: lme4::lmer(v ~ 1 + (1|q))) when all samples have equally many repeats and
    `between` is not negative. Unequal numbers are allowed. Raises ValueError for a sample without repeats or with NaN, and
    NotEnoughData below two samples.

    >>> parts = variance_components([[1, 0], [1, 1], [0, 0], [1, 1]])
    >>> round(parts.between, 4), parts.within, round(parts.se, 4), round(parts.se_samples_doubled, 4)
    (0.1667, 0.125, 0.2394, 0.1693)
    """
    values, codes, sizes = _flatten(groups)
    means = np.bincount(codes, weights=values) / sizes
    split, se = one_way(values, codes), 0.0 if is_constant(means) else standard_error(means)
    single, doubled = _expected_errors(split, sizes)
    return VarianceComponents(
        mean=float(means.mean()),
        between=split.between,
        within=split.within,
        icc=split.icc,
        se=se,
        se_single=single,
        se_repeats_doubled=doubled,
        # Doubling the samples halves the variance from every source.
        se_samples_doubled=se / math.sqrt(2),
        samples=split.groups,
        repeats=values.size,
    )


def _expected_errors(split: OneWay, sizes: Codes) -> tuple[float | None, float | None]:
    """Return the standard error of the mean with one repeat per sample, and with twice the repeats of each."""
    if split.within is None or split.between is None:
        return None, None
    noise = float((0.5 / sizes).mean()) * split.within
    # A negative variance between samples would promise a smaller error than more repeats can give.
    doubled = max(split.between, 0.0) + noise
    return math.sqrt((split.between + split.within) / split.groups), math.sqrt(doubled / split.groups)


def _flatten(groups: Repeats) -> tuple[Array, Codes, Codes]:
    """Return all values, the sample of each, and the number of repeats of each sample."""
    rows: Sequence[Sequence[float]] = groups.tolist() if isinstance(groups, np.ndarray) else groups
    sizes = np.array([len(row) for row in rows], dtype=np.intp)
    if sizes.size and sizes.min() == 0:
        raise ValueError(f"{int((sizes == 0).sum())} of {sizes.size} samples have no repeats")
    if sizes.size < 2:
        raise NotEnoughData(f"{quantity(sizes.size, 'sample')}: the variance between samples needs at least 2")
    values = finite(list(chain.from_iterable(rows)))
    return values, np.repeat(np.arange(sizes.size), sizes), sizes
