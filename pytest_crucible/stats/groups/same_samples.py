"""Rank tests of several arms with the same samples: Friedman, Iman and Davenport, and Nemenyi for pairs.

The omnibus tests name no arm and gate nothing: test planned contrasts against the baseline in any case.
Rank tests compare whether values tend to be larger, not means.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, fdtrc

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import ROUNDING, Array, check_share, finite_matrix
from pytest_crucible.stats.groups.pairwise import ContrastResult, all_pairs
from pytest_crucible.stats.groups.separation import all_tied, same_profile_p_value
from pytest_crucible.stats.groups.studentized import studentized_range_critical, studentized_range_tail
from pytest_crucible.stats.results import Effect, Significance
from pytest_crucible.stats.tails import normal_p_value


def friedman(matrix: npt.ArrayLike) -> Significance:
    """Return Friedman's Q test of "all arms rank alike inside a sample"; rows are samples. R: friedman.test(matrix).

    Q is corrected for ties. On 0/1 values it is Cochran's Q, with two arms the asymptotic sign test (McNemar without
    correction); scipy.stats.friedmanchisquare needs three. Effect: Kendall's W = Q / (n (k - 1)). `iman_davenport` is the
    better approximation. When every row is tied, Q does not exist, p is 1 and W 0. Raises NotEnoughData below two rows.

    >>> result = friedman([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> result.statistic, round(result.p_value, 6), result.effects[0].value
    (4.5, 0.105399, 0.5625)
    """
    ranks = _row_ranks(matrix)
    n, k = ranks.shape
    statistic = _friedman_statistic(ranks)
    if statistic is None:
        return all_tied("friedman", (k - 1,), (n,), "kendalls w")
    return Significance(
        method="friedman",
        statistic=statistic,
        p_value=float(chdtrc(k - 1, statistic)),
        dof=(k - 1,),
        n=(n,),
        effects=(Effect(name="kendalls w", value=statistic / (n * (k - 1))),),
    )


def iman_davenport(matrix: npt.ArrayLike) -> Significance:
    """Return Friedman's test with an F approximation, F = (n - 1) Q / (n (k - 1) - Q). Iman & Davenport 1980.

    It is less conservative than chi-squared. When all rows rank alike, F does not exist, and p is the permutation one.
    Raises NotEnoughData below two rows.

    >>> result = iman_davenport([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    >>> round(result.statistic, 6), result.dof, round(result.p_value, 6)
    (3.857143, (2, 6), 0.08374)
    """
    ranks = _row_ranks(matrix)
    n, k = ranks.shape
    dof = (k - 1, (n - 1) * (k - 1))
    friedman = _friedman_statistic(ranks)
    if friedman is None:
        return all_tied("iman-davenport", dof, (n,), "kendalls w")
    agreement = Effect(name="kendalls w", value=friedman / (n * (k - 1)))
    # Perfect agreement: the denominator n (k - 1) - Q is 0.
    if np.all(ranks == ranks[0]):
        note = "all rows rank alike: p is the permutation one, and F does not exist"
        return Significance(
            method="iman-davenport",
            statistic=None,
            p_value=same_profile_p_value(ranks),
            dof=dof,
            n=(n,),
            effects=(agreement,),
            status="degenerate",
            note=note,
        )
    statistic = (n - 1) * friedman / (n * (k - 1) - friedman)
    p_value = float(fdtrc(*dof, statistic))
    return Significance(
        method="iman-davenport", statistic=statistic, p_value=p_value, dof=dof, n=(n,), effects=(agreement,)
    )


def nemenyi(matrix: npt.ArrayLike, *, level: float = 0.95) -> tuple[ContrastResult, ...]:
    """Return all differences of mean ranks, with p-values of the studentized range. Nemenyi 1963; Demšar 2006.

    The interval extends by the critical difference to both sides. The statistic is difference / se with
    se = sqrt(k (k + 1) / (6 n)), which ties do not change. R: PMCMRplus::frdAllPairsNemenyiTest. It does not need a
    significant `friedman`. Raises NotEnoughData below two rows.

    >>> pair = nemenyi([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])[1]
    >>> pair.first, pair.second, pair.difference, round(pair.p_adjusted, 4)
    (0, 2, -1.5, 0.0855)
    """
    check_share(level, "level")
    ranks = _row_ranks(matrix)
    n, k = ranks.shape
    means, se = ranks.mean(axis=0), math.sqrt(k * (k + 1) / (6 * n))
    # Ranks have a known variance, hence infinite degrees of freedom.
    half = studentized_range_critical(1 - level, k, math.inf) * se / math.sqrt(2)
    return tuple(_rank_contrast(pair, means, se, half, k, level) for pair in all_pairs(k))


def mean_ranks(matrix: npt.ArrayLike) -> list[float]:
    """Return the mean rank of each column inside the rows, 1 for the smallest value; ties share their ranks.

    >>> mean_ranks([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]])
    [1.25, 2.0, 2.75]
    """
    return [float(mean) for mean in _row_ranks(matrix).mean(axis=0)]


def _rank_contrast(pair: tuple[int, int], means: Array, se: float, half: float, k: int, level: float) -> ContrastResult:
    difference = float(means[pair[0]] - means[pair[1]])
    statistic = difference / se
    return ContrastResult(
        first=pair[0],
        second=pair[1],
        difference=difference,
        statistic=statistic,
        p_value=normal_p_value(statistic),
        p_adjusted=studentized_range_tail(math.sqrt(2) * abs(statistic), k, math.inf),
        se=se,
        interval=Interval(low=difference - half, high=difference + half, level=level, method="nemenyi"),
    )


def _row_ranks(matrix: npt.ArrayLike) -> Array:
    """Return the ranks inside each row, counted column by column, so that it takes no more memory than the matrix.

    Values that differ by rounding alone are tied, so that 0.1 + 0.2 ties with 0.3.
    """
    array = finite_matrix(matrix)
    if array.shape[0] < 2:
        raise NotEnoughData(f"{quantity(array.shape[0], 'row')}: ranks of arms need at least 2 samples")
    ranks = np.full(array.shape, 0.5)
    for column in array.T:
        above = array - column[:, None]
        noise = ROUNDING * np.maximum(np.abs(array), np.abs(column[:, None]))
        ranks += (above > noise) + 0.5 * (np.abs(above) <= noise)
    return ranks


def _friedman_statistic(ranks: Array) -> float | None:
    """Return Q, or None when every row is one tie."""
    k = ranks.shape[1]
    centred = ranks - (k + 1) / 2
    # Conover's form of Q corrects for ties by itself: the variation of tied ranks is smaller.
    variation = float(np.sum(centred**2))
    return (k - 1) * float(np.sum(centred.sum(axis=0) ** 2)) / variation if variation else None
