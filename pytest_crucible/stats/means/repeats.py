"""Repeats and groups: components of the variance, the design effect, and pass@k and pass^k."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import chain
from math import comb

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import ROUNDING, Array, Codes, Labels, check_share, finite, is_constant
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.number_format import number, quantity, with_interval, with_note


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWay:
    """The variance of single values in two components. None if the data do not define one."""

    n: int
    groups: int
    size: float
    """n0 = (N - sum(n_g^2) / N) / (G - 1), the effective group size; a little below the mean size for unequal groups."""
    within: float | None
    """Variance between values of one group; None when every group has one value."""
    between: float | None
    """Variance between the true means of groups. Negative when groups differ less than by chance."""

    @property
    def icc(self) -> float | None:
        """Share of the variance that lies between groups, ICC(1); None when undefined or nothing varies."""
        if self.within is None or self.between is None or self.between + self.within <= 0:
            return None
        return self.between / (self.between + self.within)


def one_way(values: Array, codes: Codes) -> OneWay:
    """Return the two variance components of values in at least two groups, numbered 0, 1, ...

    >>> split = one_way(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 1]))
    >>> split.within, split.between, round(split.icc, 4)
    (0.5, 1.75, 0.7778)
    """
    sizes = np.bincount(codes)
    n, count = values.size, sizes.size
    means = np.bincount(codes, weights=values) / sizes
    size = float((n - np.square(sizes).sum() / n) / (count - 1))
    # One value per group: the variance within groups cannot be estimated.
    if n == count:
        return OneWay(n=n, groups=count, size=size, within=None, between=None)
    within = _mean_square(values - means[codes], np.ones(n), n - count, values)
    # The expected mean square between groups is within + n0 * between (Searle, Casella & McCulloch 1992, ch. 3).
    between = (_mean_square(means - values.mean(), sizes, count - 1, values) - within) / size
    return OneWay(n=n, groups=count, size=size, within=within, between=between)


def _mean_square(distances: Array, weights: Array | Codes, dof: int, values: Array) -> float:
    # Equal values leave rounding errors, which are not a variance.
    if np.all(np.abs(distances) <= ROUNDING * np.abs(values).max()):
        return 0.0
    return float((weights * np.square(distances)).sum()) / dof


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDesign:
    """Design effect of clusters and the figures it comes from. None if the data do not define them."""

    n: int
    clusters: int
    size: float
    """n0, the effective cluster size of the analysis of variance."""
    icc: float | None
    """ICC(1), not truncated: below 0 when clusters differ less than by chance, below -1 where most have one value."""
    design_effect: float | None
    """Factor on the variance of the mean: 1 + (m - 1) icc with m = sum(n_g^2) / N (Kish 1965)."""
    effective_n: float | None
    """Number of independent values with the same standard error: n / design effect."""
    se_naive: float
    """Standard error of the mean under the wrong assumption that the values are independent."""

    def __str__(self) -> str:
        effect = f"design effect {number(self.design_effect)}, icc {number(self.icc)}"
        clusters = quantity(self.clusters, "cluster")
        return f"{effect}, n={self.n:,} in {clusters}, worth {number(self.effective_n)} independent values"


def cluster_effect(values: npt.ArrayLike, clusters: Labels) -> ClusterDesign:
    """Return the intraclass correlation, Kish's design effect and the effective sample size of clustered values.

    They serve reading and planning; the robust standard errors of `clustered_mean` do not use them. R: ICC::ICCbare for
    the correlation. Raises NotEnoughData below two clusters.

    >>> effect = cluster_effect([1, 1, 0, 0, 1, 1, 0, 0], list("aabbccdd"))
    >>> effect.icc, effect.design_effect, effect.effective_n
    (1.0, 2.0, 4.0)
    """
    array, codes, count = check_clustered(values, clusters, fewest=2)
    split, sizes = one_way(array, codes), np.bincount(codes)
    # With one value per cluster the correlation is undefined, but the design effect is 1.
    alone = array.size == count
    # Without a check: estimates from nearly single values may lie below -1.
    of_squares = float(np.square(sizes).sum() / sizes.sum())
    effect = 1.0 if alone else None if split.icc is None else 1 + (of_squares - 1) * split.icc
    return ClusterDesign(
        n=array.size,
        clusters=count,
        size=split.size,
        icc=split.icc,
        design_effect=effect,
        effective_n=array.size / effect if effect is not None and effect > 0 else None,
        se_naive=standard_error(array),
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedSuccess:
    """The chance of success in k attempts, for each sample and on average."""

    method: str
    """"pass@k" or "pass^k", with the number."""
    mean: float
    interval: Interval | None
    """None for one sample, and for too few clusters; `note` has the reason."""
    per_sample: tuple[float, ...] = field(repr=False)
    k: int
    note: str = ""

    def __str__(self) -> str:
        line = f"{self.method} {with_interval(self.mean, self.interval)}, samples={len(self.per_sample):,}"
        return with_note(line, self.note)


def any_chances(attempts: npt.ArrayLike, successes: npt.ArrayLike, k: int) -> Array:
    """Return 1 - C(n - c, k) / C(n, k): how likely some of k of the n attempts succeeds; NaN where n < k.

    >>> any_chances([3, 3, 1], [0, 1, 1], 2).round(4).tolist()
    [0.0, 0.6667, nan]
    """
    # Exact whole numbers, divided once: neither a chance near 0 nor one near 1 loses digits.
    return _chances(lambda n, c: (comb(n, k) - comb(n - c, k)) / comb(n, k), attempts, successes, k)


def all_chances(attempts: npt.ArrayLike, successes: npt.ArrayLike, k: int) -> Array:
    """Return C(c, k) / C(n, k): how likely all k of the n attempts succeed; NaN where n < k.

    >>> all_chances([3, 3, 1], [3, 2, 1], 2).round(4).tolist()
    [1.0, 0.3333, nan]
    """
    return _chances(lambda n, c: comb(c, k) / comb(n, k), attempts, successes, k)


def _chances(chance: Callable[[int, int], float], attempts: npt.ArrayLike, successes: npt.ArrayLike, k: int) -> Array:
    tried, succeeded = np.broadcast_arrays(attempts, successes)
    # A thousand samples with twenty attempts have only 21 different chances.
    pairs, places = np.unique(np.stack([tried.ravel(), succeeded.ravel()]), axis=1, return_inverse=True)
    values = [chance(int(n), int(c)) if n >= k else math.nan for n, c in pairs.T.tolist()]
    return np.array(values, dtype=np.float64)[places.ravel()].reshape(tried.shape)


def pass_at_k(
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> RepeatedSuccess:
    """Return the chance that at least one of k attempts succeeds: the mean of 1 - C(n - c, k) / C(n, k) over samples.

    Chen et al. (2021, arXiv 2107.03374). `attempts` is one number for each sample, or one for all. The interval is that of
    the target `pass@k`: Gaffke's two one-sided bounds, or Wilson's where each chance is 0 or 1; over `clusters` of samples if there
    are any. Raises ValueError when a sample has fewer than k attempts or invalid counts, and without samples.

    >>> result = pass_at_k(20, [0, 1, 5, 12, 20], 5)
    >>> round(result.per_sample[1], 4), round(result.mean, 4)
    (0.25, 0.6105)
    """
    return _success_over_samples(f"pass@{k}", any_chances, attempts, successes, k, clusters, level)


def pass_hat_k(
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    *,
    clusters: Labels | None = None,
    level: float = 0.95,
) -> RepeatedSuccess:
    """Return the chance that all of k attempts succeed: the mean of C(c, k) / C(n, k) over samples.

    Yao et al. (2024, arXiv 2406.12045). Arguments, interval and errors as in `pass_at_k`.

    >>> result = pass_hat_k(20, [0, 1, 5, 12, 20], 3)
    >>> round(result.per_sample[3], 4), round(result.mean, 4)
    (0.193, 0.2404)
    """
    return _success_over_samples(f"pass^{k}", all_chances, attempts, successes, k, clusters, level)


def _success_over_samples(
    method: str,
    chances_of: Callable[[npt.ArrayLike, npt.ArrayLike, int], Array],
    attempts: npt.ArrayLike,
    successes: npt.ArrayLike,
    k: int,
    clusters: Labels | None,
    level: float,
) -> RepeatedSuccess:
    # Imported here: it imports this package for the methods that it chooses from.
    from pytest_crucible.stats.estimating import estimate_chances

    check_share(level, "level")
    chances = chances_of(*_counts(attempts, successes, k), k)
    mean = estimate_chances(chances, level, clusters)
    return RepeatedSuccess(
        method=method,
        mean=float(chances.mean()),
        interval=mean.interval,
        per_sample=tuple(chances.tolist()),
        k=k,
        note="" if mean.interval else mean.note,
    )


def _counts(attempts: npt.ArrayLike, successes: npt.ArrayLike, k: int) -> tuple[npt.ArrayLike, npt.ArrayLike]:
    succeeded = np.asarray(successes)
    tried = np.asarray(attempts)
    if succeeded.ndim != 1 or not succeeded.size or tried.shape not in ((), succeeded.shape):
        raise ValueError(
            f"attempts and successes need one number for each sample, not shapes {tried.shape}, {succeeded.shape}"
        )
    tried = np.broadcast_to(tried, succeeded.shape)
    whole = (tried == np.floor(tried)) & (succeeded == np.floor(succeeded))
    strange = int((~(whole & (succeeded >= 0) & (succeeded <= tried))).sum())
    if strange:
        raise ValueError(f"{strange} of {succeeded.size} samples have counts that are not 0 <= successes <= attempts")
    short = int((tried < k).sum())
    if k < 1 or short:
        raise ValueError(f"k={k} must be at least 1, and {short} of {succeeded.size} samples have fewer attempts")
    return tried, succeeded
