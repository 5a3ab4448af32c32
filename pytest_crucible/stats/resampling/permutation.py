"""Permutation tests of a mean difference: sign flips for pairs, exchanged labels for two independent samples.

Exact wherever all arrangements can be counted, else Monte Carlo with p = (1 + #{T* as extreme}) / (1 + draws), which
is valid for any number of draws and never 0 (Phipson & Smyth 2010).
"""

from __future__ import annotations

import itertools
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
    finite,
    is_constant,
)
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import number, p_equals, with_note
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator
from pytest_crucible.stats.resampling.sign_flips import (
    MOST_SPLIT,
    compute_sign_flip_distribution,
    count_sums_at_least,
    draw_sums,
)
from pytest_crucible.stats.results import Status

# Up to this many values all subsets of a size are counted, from two lists of at most 2^17 sums.
MOST_MEMBERS = 34
# Up to this many subsets they are listed, however many values there are.
MOST_LISTED = 200_000
# Random keys drawn at once: they stay in the processor's cache.
CELLS = 20_000


def can_count(n: int, size: int) -> bool:
    """Return True when `count_subsets_at_least` is quick.

    >>> can_count(30, 15), can_count(500, 2), can_count(60, 30)
    (True, True, False)
    """
    # A larger smaller arm means at least 2^18 subsets; checking it first avoids a huge binomial coefficient.
    is_small = min(size, n - size) <= 17
    return n <= MOST_MEMBERS or (is_small and math.comb(n, size) <= MOST_LISTED)


def count_subsets_at_least(values: Array, size: int, threshold: float) -> int:
    """Return how many subsets of this size have a sum >= threshold, out of n choose size.

    >>> count_subsets_at_least(np.array([1.0, 2.0, 3.0, 4.0]), 2, 5.0)
    4
    """
    if values.size > MOST_MEMBERS:
        members = itertools.chain.from_iterable(itertools.combinations(range(values.size), size))
        picks = np.fromiter(members, dtype=np.intp).reshape(-1, size)
        return int(np.sum(values[picks].sum(axis=1) >= threshold))
    # Every subset is one of the first half and one of the second: two short lists instead of one long one.
    first, second = _sums_by_size(values[: values.size // 2]), _sums_by_size(values[values.size // 2 :])
    count = 0
    for taken_from_first, sums in enumerate(first):
        if 0 <= size - taken_from_first < len(second):
            others = second[size - taken_from_first]
            count += int(np.sum(others.size - np.searchsorted(others, threshold - sums, side="left")))
    return count


def draw_subset_sums(values: Array, size: int, draws: int, rng: np.random.Generator) -> Array:
    """Return sums of random subsets of this size, without replacement inside a subset.

    >>> draw_subset_sums(np.array([1.0, 1.0, 1.0]), 2, 3, np.random.default_rng(0)).tolist()
    [2.0, 2.0, 2.0]
    """
    rows, pieces = max(1, CELLS // values.size), []
    for start in range(0, draws, rows):
        # The smallest keys of a row mark a random subset: partitioning is faster than shuffling.
        keys = rng.random((min(rows, draws - start), values.size))
        pieces.append(values[np.argpartition(keys, size - 1, axis=1)[:, :size]].sum(axis=1))
    return np.concatenate(pieces)


def _sums_by_size(values: Array) -> list[Array]:
    """Return ascending sums of all subsets, by their number of members."""
    sums, sizes = np.zeros(1), np.zeros(1, dtype=np.int8)
    for value in values.tolist():
        sums, sizes = np.concatenate((sums, sums + value)), np.concatenate((sizes, sizes + np.int8(1)))
    return [np.sort(sums[sizes == size]) for size in range(values.size + 1)]


# Sums closer than this share of all absolute values are ties, and ties count as extreme.
TIE = 1e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationTest:
    """The result of a permutation test of a mean difference."""

    method: str
    statistic: float
    """The mean difference, candidate minus baseline."""
    p_value: float
    alternative: Alternative
    exact: bool
    """True when all arrangements are counted: no Monte Carlo error and no seed."""
    arrangements: float
    """The number of arrangements behind the p-value: all of them (possibly inf), or those drawn."""
    smallest: float
    """The smallest p-value that this computation resolves; `p_value` is never below it."""
    p_error: float
    """Monte Carlo standard error of the p-value; 0 when exact."""
    seed: int | None = None
    """None when exact, or when the caller passed a generator."""
    n: tuple[int, ...]
    """Pairs, or observations of each arm."""
    clusters: int | None = None
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        n = " + ".join(f"{n:,}" for n in self.n)
        summary = (
            f"mean difference {number(self.statistic, sign=True)}, {p_equals(self.p_value)}, n={n} ({self.method})"
        )
        return with_note(summary, self.note)


def sign_flip(
    differences: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    clusters: Labels | None = None,
    flips: int = 10_000,
    rng: Seed = 0,
) -> PermutationTest:
    """Return the sign-flip test of paired differences, with the mean as statistic.

    R: coin::oneway_test of pairs, exact. It tests whether the arms are exchangeable within each pair. Exact up to 34
    non-zero differences, and for those on a grid (0.01, thirds, ...) up to some thousands; else `flips` random ones.
    Clusters flip whole. Take differences with `arrays.difference`, so that 0.3 - 0.2 ties 0.2 - 0.1. Raises
    NotEnoughData without differences.

    >>> result = sign_flip([0.2, 0.5, 0.1, 0.4, 0.3, 0.6])
    >>> round(result.statistic, 3), result.p_value, result.arrangements
    (0.35, 0.03125, 64.0)
    """
    check_alternative(alternative)
    array = finite(differences, name="differences")
    check_draws(flips, "flips")
    if not array.size:
        raise NotEnoughData("0 differences: a sign-flip test needs at least 1")
    units, count = array, None
    if clusters is not None:
        codes, count = cluster_codes(clusters, array.size)
        units = cluster_totals(codes, array)
    tail = _sign_flip_tail(units, alternative, flips, rng)
    constant = is_constant(units)
    return PermutationTest(
        method=f"sign flips, {tail.source}",
        statistic=float(array.mean()),
        p_value=tail.p_value,
        alternative=alternative,
        exact=tail.exact,
        arrangements=_power_of_two(units.size) if tail.exact else float(flips),
        smallest=tail.smallest,
        p_error=tail.error,
        seed=tail.seed,
        n=(array.size,),
        clusters=count,
        status="degenerate" if constant else "ok",
        note="all differences are equal: the p-value follows from their number alone" if constant else "",
    )


def permute_two_samples(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    permutations: int = 10_000,
    rng: Seed = 0,
) -> PermutationTest:
    """Return the permutation test of two independent samples by mean(candidate) - mean(baseline).

    R: coin::oneway_test(exact). It tests whether both arms have one distribution; two-sided by |T*| >= |T|. Exact up to
    34 values in total or 200,000 ways of choosing the smaller arm, else `permutations` random ones. Raises
    NotEnoughData for an empty arm.

    >>> permute_two_samples([1, 1, 0, 1, 1], [0, 0, 1, 0, 0]).p_value
    0.20634920634920634
    """
    check_alternative(alternative)
    candidate_values, baseline_values = (
        finite(candidate, name="values of the candidate"),
        finite(baseline, name="values of the baseline"),
    )
    check_draws(permutations, "permutations")
    if not candidate_values.size or not baseline_values.size:
        raise NotEnoughData(f"{candidate_values.size} and {baseline_values.size} values: both arms need at least 1")
    tail = _two_sample_tail(candidate_values, baseline_values, alternative, permutations, rng)
    constant = is_constant(np.concatenate((candidate_values, baseline_values)))
    return PermutationTest(
        method=f"permutation of two samples, {tail.source}",
        statistic=float(candidate_values.mean() - baseline_values.mean()),
        p_value=tail.p_value,
        alternative=alternative,
        exact=tail.exact,
        arrangements=float(math.comb(candidate_values.size + baseline_values.size, candidate_values.size))
        if tail.exact
        else float(permutations),
        smallest=tail.smallest,
        p_error=tail.error,
        seed=tail.seed,
        n=(candidate_values.size, baseline_values.size),
        status="degenerate" if constant or (is_constant(candidate_values) and is_constant(baseline_values)) else "ok",
        note="all values are equal" if constant else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tail:
    """A p-value and how it was computed."""

    p_value: float
    source: str
    smallest: float
    exact: bool = True
    error: float = 0.0
    seed: int | None = None


def _sign_flip_tail(units: Array, alternative: Alternative, flips: int, rng: Seed) -> _Tail:
    # A difference of 0 is the same with either sign.
    nonzero = units[units != 0]
    total, slack = float(nonzero.sum()), TIE * float(np.abs(nonzero).sum())
    threshold = {"two-sided": abs(total), "greater": total, "less": -total}[alternative]
    sides = 2 if alternative == "two-sided" else 1
    if sides == 2 and threshold <= slack:
        return _Tail(p_value=1.0, source="exact by counting", smallest=0.0)
    if nonzero.size <= MOST_SPLIT:
        count = sides * count_sums_at_least(nonzero, threshold - slack)
        return _Tail(p_value=count / 2**nonzero.size, source="exact by counting", smallest=2.0**-nonzero.size)
    distribution = compute_sign_flip_distribution(nonzero)
    if distribution is not None:
        half_step = float(np.diff(distribution.values).min()) / 2
        above = float(distribution.weights[np.searchsorted(distribution.values, threshold - half_step) :].sum())
        smallest = max(distribution.resolution, _inverse_power_of_two(nonzero.size))
        return _Tail(p_value=min(1.0, max(sides * above, smallest)), source="exact on a grid", smallest=smallest)
    generate, seed = generator(rng)
    sums = draw_sums(nonzero, flips, generate)
    return _monte_carlo_tail(sums, threshold - slack, alternative, seed)


def _two_sample_tail(candidate: Array, baseline: Array, alternative: Alternative, draws: int, rng: Seed) -> _Tail:
    """Return the tail of the sum of the smaller arm, centred; the mean difference is proportional to it."""
    smaller, sign = (candidate, 1.0) if candidate.size <= baseline.size else (baseline, -1.0)
    pooled = np.concatenate((candidate, baseline))
    centred, size = sign * (pooled - pooled.mean()), smaller.size
    total, slack = float(sign * (smaller - pooled.mean()).sum()), TIE * float(np.abs(centred).sum())
    if can_count(pooled.size, size):
        # Sums at least as large, and for the other side those at least as small, by turning all signs.
        large = {"two-sided": abs(total), "greater": total, "less": -total}[alternative]
        sides = {"two-sided": (1.0, -1.0), "greater": (1.0,), "less": (-1.0,)}[alternative]
        count = sum(count_subsets_at_least(side * centred, size, large - slack) for side in sides)
        arrangements = math.comb(pooled.size, size)
        p_value = 1.0 if alternative == "two-sided" and large <= slack else count / arrangements
        return _Tail(p_value=p_value, source="exact by counting", smallest=1 / arrangements)
    generate, seed = generator(rng)
    sums = draw_subset_sums(centred, size, draws, generate)
    sums, total = (-sums, -total) if alternative == "less" else (sums, total)
    return _monte_carlo_tail(sums, (abs(total) if alternative == "two-sided" else total) - slack, alternative, seed)


def _monte_carlo_tail(sums: Array, threshold: float, alternative: Alternative, seed: int | None) -> _Tail:
    compared = np.abs(sums) if alternative == "two-sided" else sums
    p_value = (1 + int(np.sum(compared >= threshold))) / (1 + sums.size)
    return _Tail(
        p_value=p_value,
        source="monte carlo",
        smallest=1 / (1 + sums.size),
        exact=False,
        error=math.sqrt(p_value * (1 - p_value) / sums.size),
        seed=seed,
    )


def _power_of_two(n: int) -> float:
    # 2.0**1024 raises OverflowError.
    return 2.0**n if n < 1024 else math.inf


def _inverse_power_of_two(n: int) -> float:
    # Below 2^-1022 doubles lose digits.
    return 2.0**-n if n < 1022 else 2.0**-1022
