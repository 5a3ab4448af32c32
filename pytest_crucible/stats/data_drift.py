"""Drift between two samples of one field, and tests of memorisation from log-probabilities.

Each test of drift returns a p-value, and for numbers and categories a distance with bounds, which a margin can be compared with.
The size of the population stability index (PSI) without drift depends on the sample sizes, so the index alone shows nothing: with
ten bins, its mean is .4 at n = 50.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.interval import NotEnoughData

Test = Literal[
    "Kolmogorov-Smirnov", "Kolmogorov-Smirnov, permuted", "chi-squared", "chi-squared, permuted", "MMD, permuted"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDrift:
    """One field of two samples, `old` and `new`."""

    test: Test
    statistic: float
    p_value: float
    n: tuple[int, int]
    """Values of the old and of the new sample."""
    distance: float | None = None
    """The largest difference of two distribution functions (numbers), or the total variation distance (categories); 0 to 1.

    None for texts, whose distance has no scale.
    """
    noise: float = 0.0
    """An upper bound on the expected distance of two samples of these sizes without drift."""
    seed: int | None = None
    """The seed of a permuted test."""

    def lower(self, alpha: float) -> float | None:
        """Return the lower bound of the distance at level 1 - alpha; None without a distance."""
        if self.distance is None:
            return None
        return max(0.0, self.distance - self.noise - self._slack(alpha))

    def upper(self, alpha: float) -> float | None:
        """Return the upper bound of the distance at level 1 - alpha; None without a distance."""
        return None if self.distance is None else min(1.0, self.distance + self._slack(alpha))

    def _slack(self, alpha: float) -> float:
        """Return the deviation of a distance from its expectation that is exceeded, on one side, with probability alpha at most.

        One value changes either distance by at most 1 / n, so the bounded difference inequality holds (McDiarmid 1989). The
        expectation is at least the true distance, because both are convex in the two distributions (Jensen), and at most
        `noise` above it.
        """
        return math.sqrt(math.log(1 / alpha) / 2 * sum(1 / n for n in self.n))


def decide_margin(
    drift: FieldDrift, margin: float, *, alpha: float, family_size: int
) -> Literal["met", "missed", "undecided"]:
    """Return met (the distance is proven to be below the margin), missed (proven to be above), or undecided.

    Above is claimed for any of `family_size` fields with error rate alpha over all (Bonferroni). Below needs no correction:
    all have to be.
    """
    lower, upper = drift.lower(alpha / family_size), drift.upper(alpha)
    if lower is None or upper is None:
        return "undecided"
    return "missed" if lower > margin else "met" if upper < margin else "undecided"


Counts = npt.NDArray[np.int64]
# Cochran (1954): the chi-squared distribution is a good approximation where at most a fifth of the expected counts are below
# 5, and none is below 1.
LEAST_EXPECTED, LEAST_OF_ALL, MOST_BELOW = 5.0, 1.0, 0.2
# With the observed table 5,000, so that p-values are multiples of 0.0002.
DRAWS = 4999
# Tables that are drawn at a time: a field may have thousands of categories.
_MOST_CELLS = 2_000_000
# Statistics of equal tables differ by less, relatively.
_ROUNDING = 1e-9


def compare_categories(old: Sequence[int], new: Sequence[int], *, seed: int = 0, draws: int = DRAWS) -> FieldDrift:
    """Return the chi-squared test of the counts of each category in two samples, in one order.

    As `scipy.stats.chi2_contingency(correction=False)`; where more than a fifth of the expected counts are below 5, or one is
    below 1, labels are permuted, and p = (1 + tables as extreme) / (1 + draws) (Phipson & Smyth 2010). Raises NotEnoughData for
    an empty sample, or one category only.
    """
    table = np.array([old, new], dtype=np.int64)
    table = table[:, table.sum(axis=0) > 0]
    sizes = table.sum(axis=1)
    if sizes.min() < 1 or table.shape[1] < 2:
        raise NotEnoughData("a comparison needs at least 2 categories, and values in each sample")
    expected = np.outer(sizes, table.sum(axis=0)) / table.sum()
    statistic = float(_chi_squared(table[0], expected[0]) + _chi_squared(table[1], expected[1]))
    is_permuted = bool((expected < LEAST_EXPECTED).mean() > MOST_BELOW or expected.min() < LEAST_OF_ALL)
    degrees = table.shape[1] - 1
    totals = table.sum(axis=0)

    def chi_squared(rows: Counts) -> npt.NDArray[np.float64]:
        return _chi_squared(rows, expected[0]) + _chi_squared(totals - rows, expected[1])

    p_value = (
        _permuted_p(table, chi_squared, statistic * (1 - _ROUNDING), seed, draws)
        if is_permuted
        else float(chdtrc(degrees, statistic))
    )
    share = table / sizes[:, None]
    return FieldDrift(
        test="chi-squared, permuted" if is_permuted else "chi-squared",
        statistic=statistic,
        p_value=p_value,
        n=(int(sizes[0]), int(sizes[1])),
        distance=float(np.abs(share[0] - share[1]).sum() / 2),
        # Half the sum of the standard deviations of the differences, largest for equal shares (Cauchy-Schwarz).
        noise=0.5 * math.sqrt((table.shape[1] - 1) * (1 / sizes[0] + 1 / sizes[1])),
        seed=seed if is_permuted else None,
    )


def same_value(old: int, new: int) -> FieldDrift:
    """Return the comparison of two samples that have one value only, and the same one: there is no drift to find."""
    return FieldDrift(test="chi-squared", statistic=0.0, p_value=1.0, n=(old, new), distance=0.0)


def draw_tables(table: Counts, draws: int, seed: int) -> list[Counts]:
    """Return the first rows of tables with the same totals, as they come about when labels are exchanged at random, in parts."""
    totals, size = table.sum(axis=0), int(table[0].sum())
    generator = np.random.default_rng(seed)
    part = max(1, _MOST_CELLS // table.shape[1])
    return [
        generator.multivariate_hypergeometric(totals, size, size=min(part, draws - start), method="marginals")
        for start in range(0, draws, part)
    ]


def _permuted_p(
    table: Counts, statistics: Callable[[Counts], npt.NDArray[np.float64]], limit: float, seed: int, draws: int
) -> float:
    """Return the p-value of a limit, from the statistics of the first rows of random tables."""
    extreme = sum(int((statistics(rows) >= limit).sum()) for rows in draw_tables(table, draws, seed))
    return (1 + extreme) / (1 + draws)


def _chi_squared(counts: Counts, expected: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(((counts - expected) ** 2 / expected).sum(axis=-1))


# E sup |F_n - F| sqrt(n) is at most the integral of the bound of Dvoretzky, Kiefer & Wolfowitz (Massart 1990), 2 exp(-2 x^2).
_MEAN_SUPREMUM = math.sqrt(math.pi / 2)
# More distinct values are joined to so many steps before labels are permuted: a step holds a thousandth of the values.
_MOST_STEPS = 1000
# Statistics of equal tables differ by less.
_STEP_ROUNDING = 1e-12


def compare_numbers(old: npt.ArrayLike, new: npt.ArrayLike, *, seed: int = 0, draws: int = DRAWS) -> FieldDrift:
    """Return the Kolmogorov-Smirnov test of two samples of numbers, as `scipy.stats.ks_2samp` computes it.

    The p-value is exact for at most 10,000 values in each sample, otherwise asymptotic. Both assume that no two values are
    equal, and ties make them too large: .198 for two samples of 0 and 1 where the chi-squared test gives .0006. So where
    values are tied, labels are permuted, and p = (1 + permutations as extreme) / (1 + draws) (Phipson & Smyth 2010), unless
    the p-value without ties, which is an upper bound, is smaller than that could be. Raises NotEnoughData for fewer than two
    values in either sample.
    """
    first, second = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    if min(len(first), len(second)) < 2:
        raise NotEnoughData("a comparison needs at least 2 values in each sample")
    statistic, p_value = _without_ties(first, second)
    values, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    is_permuted = len(values) < len(codes) and p_value > 1 / (1 + draws)
    if is_permuted:
        table = _step_counts(codes, len(first))
        limit = _largest_steps(table[:1], table)[0] - _STEP_ROUNDING
        p_value = _permuted_p(table, lambda rows: _largest_steps(rows, table), limit, seed, draws)
    noise = _MEAN_SUPREMUM * (1 / math.sqrt(len(first)) + 1 / math.sqrt(len(second)))
    return FieldDrift(
        test="Kolmogorov-Smirnov, permuted" if is_permuted else "Kolmogorov-Smirnov",
        statistic=statistic,
        p_value=p_value,
        n=(len(first), len(second)),
        distance=statistic,
        noise=noise,
        seed=seed if is_permuted else None,
    )


def _without_ties(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the statistic, and its p-value if no two values were equal."""
    with warnings.catch_warnings():
        # Of an exact p-value that is too small to be computed: scipy returns the asymptotic one.
        warnings.simplefilter("ignore", RuntimeWarning)
        # It takes a second to import, and most sessions compare no columns.
        from scipy import stats

        result = stats.ks_2samp(first, second)
    return float(result.statistic), min(1.0, float(result.pvalue))


def _step_counts(codes: npt.NDArray[np.intp], old: int) -> Counts:
    """Return how many values of the old (row 0) and of the new sample are on each step of the pooled distribution."""
    totals = np.bincount(codes)
    steps = np.arange(len(totals))
    if len(totals) > _MOST_STEPS:
        # By the pooled values alone, which permuted labels leave as they are: so the test stays exact.
        _, steps = np.unique((np.cumsum(totals) - totals) * _MOST_STEPS // len(codes), return_inverse=True)
    counts = [np.bincount(steps[part], minlength=int(steps.max()) + 1) for part in (codes[:old], codes[old:])]
    return np.array(counts, dtype=np.int64)


def _largest_steps(rows: Counts, table: Counts) -> npt.NDArray[np.float64]:
    """Return the largest difference of the distribution functions for each first row of a table with these totals."""
    sizes, totals = table.sum(axis=1), np.cumsum(table.sum(axis=0))
    below = np.cumsum(rows, axis=1)
    return np.asarray(np.abs(below / sizes[0] - (totals - below) / sizes[1]).max(axis=1))


# Ten bins of equal counts are customary.
BINS = 10
# The standard error of the mean of so many tables is a twentieth of the spread of the index.
_STABILITY_DRAWS = 400
# Half an observation in each bin: without it, an empty bin makes the index infinite.
_PRIOR = 0.5
# The distance of two numbers up to half the largest is finite.
_LARGEST = np.finfo(float).max / 2


def stability_of_numbers(old: npt.ArrayLike, new: npt.ArrayLike, *, seed: int = 0) -> tuple[float, float]:
    """Return the index over the deciles of both samples together, and its mean without drift."""
    first, second = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    # Deciles are interpolated, and between infinities nothing can be: they are in the last bins anyway.
    pooled = np.clip(np.concatenate([first, second]), -_LARGEST, _LARGEST)
    edges = np.unique(np.quantile(pooled, np.arange(1, BINS) / BINS)) if len(pooled) else pooled
    counts = [
        np.bincount(np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1)
        for values in (first, second)
    ]
    return stability_of_categories(counts[0].tolist(), counts[1].tolist(), seed=seed)


def stability_of_categories(old: Sequence[int], new: Sequence[int], *, seed: int = 0) -> tuple[float, float]:
    """Return the index of counts in one order, and its mean over permuted labels."""
    table = np.array([old, new], dtype=np.int64)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] < 2 or table.sum(axis=1).min() < 1:
        return 0.0, 0.0
    totals = table.sum(axis=0)
    without = [_index(rows, totals - rows) for rows in draw_tables(table, _STABILITY_DRAWS, seed)]
    return float(_index(table[0], table[1])), float(np.concatenate(without).mean())


def _index(old: npt.NDArray[np.int64], new: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return sum (q - p) ln(q / p) over the last axis."""
    first, second = ((counts + _PRIOR) / (counts + _PRIOR).sum(axis=-1, keepdims=True) for counts in (old, new))
    return np.asarray(((second - first) * np.log(second / first)).sum(axis=-1))


# With the observed order 2,000, so that p-values are multiples of 0.0005.
_VECTOR_DRAWS = 1999
# Permutations of one matrix product, which bounds its memory.
_BATCH = 100
_VECTOR_ROUNDING = 1e-9


def compare_vectors(vectors: Any, old: int, *, seed: int = 0, draws: int = _VECTOR_DRAWS) -> FieldDrift:
    """Return the permutation test of the maximum mean discrepancy with the kernel x . y (Gretton et al. 2012, equation 5).

    `vectors` is an array or sparse matrix with a row for each text, the `old` ones first. For unit vectors the kernel is the
    cosine, and the statistic is the squared distance of the two means. p = (1 + permutations as extreme) / (1 + draws).
    """
    number = vectors.shape[0]
    if min(old, number - old) < 2:
        raise NotEnoughData("a comparison needs at least 2 texts in each sample")
    weights = np.concatenate([np.full(old, 1 / old), np.full(number - old, -1 / (number - old))])
    statistic = _squared_distances(vectors, weights[:, None])[0]
    generator = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, draws, _BATCH):
        columns = np.tile(weights[:, None], min(_BATCH, draws - start))
        drawn = _squared_distances(vectors, generator.permuted(columns, axis=0))
        extreme += int((drawn >= statistic * (1 - _VECTOR_ROUNDING)).sum())
    return FieldDrift(
        test="MMD, permuted",
        statistic=float(statistic),
        p_value=(1 + extreme) / (1 + draws),
        n=(old, number - old),
        seed=seed,
    )


def _squared_distances(vectors: Any, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the squared length of the weighted sum of the vectors, for each column of weights."""
    sums = np.asarray(vectors.T @ weights)
    return np.asarray(np.einsum("ij,ij->j", sums, sums))


LOWEST = 0.2
"""Share of the tokens that min-K% averages over, as Shi et al. (2024) recommend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTest:
    """The comparison of a dataset's own order with random orders."""

    p_value: float
    own: float
    """Log-probability of the dataset in its own order."""
    others: tuple[float, ...]
    """Log-probability of the dataset in each random order."""

    @property
    def gain(self) -> float:
        """The excess of the log-probability of the own order over the mean of the others, in nats."""
        return self.own - float(np.mean(self.others))


def order_test(own: float, others: Sequence[float]) -> OrderTest:
    """Return the exact permutation test of Oren et al. (2024), section 3: p = (1 + orders as probable) / (1 + orders).

    For a dataset that a model was not trained on, all orders are equally probable a priori, so that P(p <= a) <= a for every a.

    >>> order_test(-10.0, [-11.0, -12.0, -13.0]).p_value
    0.25
    """
    if not others:
        raise NotEnoughData("the order test needs at least 1 random order")
    as_probable = sum(other >= own for other in others)
    return OrderTest(p_value=(1 + as_probable) / (1 + len(others)), own=own, others=tuple(others))


def lowest_mean(logprobs: Sequence[float], share: float = LOWEST) -> float:
    """Return the mean of the least probable tokens' log-probabilities: min-K% prob of Shi et al. (2024), equation 1.

    Raises NotEnoughData for a text without a scored token.

    >>> lowest_mean([-1.0, -2.0, -3.0, -9.0, -0.5])
    -9.0
    """
    if not len(logprobs):
        raise NotEnoughData("min-K% needs a text of at least 2 tokens")
    ordered = np.sort(np.asarray(logprobs, dtype=float))
    return float(ordered[: max(1, int(len(ordered) * share))].mean())


@dataclass(frozen=True, slots=True, kw_only=True)
class MinKTest:
    """The comparison of texts with fresh ones, by how much more probable they are to a candidate than to its base model."""

    p_value: float
    """One-sided Mann-Whitney test."""
    auroc: float
    """The probability that a text gained more than a fresh one; 0.5 without memorisation."""
    n: tuple[int, int]
    means: tuple[float, float]
    """Mean gains of the texts and of the fresh ones, in nats a token."""


def compare_min_k(gains: Sequence[float], fresh: Sequence[float]) -> MinKTest:
    """Return the comparison of min-K% gains (candidate minus base) of texts with those of fresh texts.

    Raises NotEnoughData for fewer than two of either.
    """
    if min(len(gains), len(fresh)) < 2:
        raise NotEnoughData("a comparison needs at least 2 texts and 2 fresh texts")
    # It takes a second to import, and only the commands for memorisation need it.
    from scipy import stats

    result = stats.mannwhitneyu(gains, fresh, alternative="greater")
    return MinKTest(
        p_value=float(result.pvalue),
        auroc=float(result.statistic) / (len(gains) * len(fresh)),
        n=(len(gains), len(fresh)),
        means=(float(np.mean(gains)), float(np.mean(fresh))),
    )
