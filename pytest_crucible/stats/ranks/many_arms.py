"""Rank tests of several independent arms: Kruskal-Wallis for all at once, Dunn for pairs.

The omnibus test names no arm and gates nothing: test planned contrasts against the baseline in any case.
Rank tests compare whether values tend to be larger, not means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from pytest_crucible.stats.arrays import Array, check_choice, finite_groups
from pytest_crucible.stats.groups.pairwise import ContrastResult, all_pairs
from pytest_crucible.stats.groups.separation import all_tied
from pytest_crucible.stats.multiplicity.adjust import Adjustment, adjust
from pytest_crucible.stats.ranks.ranking import Counts, doubled_ranks
from pytest_crucible.stats.results import Effect, Significance
from pytest_crucible.stats.tails import normal_p_value


def kruskal_wallis(groups: Sequence[npt.ArrayLike]) -> Significance:
    """Return the Kruskal-Wallis H test of "all groups have one distribution", corrected for ties; R: kruskal.test(groups).

    With two groups it is the asymptotic Mann-Whitney test without continuity correction. Effects: epsilon squared
    H / (N - 1) and eta squared H, which is corrected for chance. When all values are equal, H does not exist and p is 1.
    Raises ValueError for an empty group.

    >>> result = kruskal_wallis([[1, 2, 3], [1, 2, 3], [4, 5, 6]])
    >>> round(result.statistic, 6), round(result.p_value, 6)
    (5.538462, 0.06271)
    """
    arrays = finite_groups(groups)
    sizes, means, variance = _pooled_ranks(arrays)
    n, k = int(sizes.sum()), len(arrays)
    if variance == 0:
        return all_tied("kruskal-wallis", (k - 1,), tuple(sizes.tolist()), "epsilon squared")
    statistic = float(np.sum(sizes * (means - (n + 1) / 2) ** 2)) / variance
    # H has the mean k - 1 when no arm differs (Tomczak & Tomczak 2014).
    chance_free = (statistic - k + 1) / (n - k) if n > k else None
    return Significance(
        method="kruskal-wallis",
        statistic=statistic,
        p_value=float(chdtrc(k - 1, statistic)),
        dof=(k - 1,),
        n=tuple(sizes.tolist()),
        effects=(
            Effect(name="epsilon squared", value=statistic / (n - 1)),
            Effect(name="eta squared h", value=chance_free),
        ),
    )


def dunn(
    groups: Sequence[npt.ArrayLike], *, adjustment: Adjustment | Literal["none"] = "holm"
) -> tuple[ContrastResult, ...]:
    """Return Dunn's z of mean ranks for all pairs of independent arms, corrected for ties.

    Dunn 1964 (Technometrics 6:241); R: rstatix::dunn_test(v ~ g, p.adjust.method=...), with the sign of first minus
    second. `adjustment` is a method of `stats.adjust`, or "none". The difference is of mean ranks among all groups. It
    does not need a significant `kruskal_wallis`. When all values are equal, every p is 1.

    >>> [round(pair.p_adjusted, 4) for pair in dunn([[1, 2, 3], [1, 2, 3], [4, 5, 6]])]
    [1.0, 0.1246, 0.1246]
    """
    check_choice(adjustment, ("none", *get_args(Adjustment)), "adjustment")
    arrays = finite_groups(groups)
    sizes, means, variance = _pooled_ranks(arrays)
    pairs = all_pairs(len(arrays))
    differences = [float(means[first] - means[second]) for first, second in pairs]
    errors = [math.sqrt(variance * (1 / sizes[first] + 1 / sizes[second])) for first, second in pairs]
    scores = [gap / se if se else None for gap, se in zip(differences, errors, strict=True)]
    p_values = [1.0 if z is None else normal_p_value(z) for z in scores]
    adjusted: Sequence[float | None] = p_values if adjustment == "none" else adjust(p_values, adjustment)
    return tuple(
        ContrastResult(
            first=first,
            second=second,
            difference=difference,
            statistic=z,
            p_value=p_value,
            p_adjusted=p_adjusted,
            se=se,
            status="ok" if se else "degenerate",
            note="" if se else "all values are equal",
        )
        for (first, second), difference, se, z, p_value, p_adjusted in zip(
            pairs, differences, errors, scores, p_values, adjusted, strict=True
        )
    )


def _pooled_ranks(groups: Sequence[Array]) -> tuple[Counts, Array, float]:
    """Return (sizes, mean ranks, variance of one rank) of the groups in the pooled order; ties share their ranks."""
    sizes = np.array([group.size for group in groups], dtype=np.int64)
    doubled, ties = doubled_ranks(np.concatenate(groups))
    means = np.array([part.mean() / 2 for part in np.split(doubled, np.cumsum(sizes)[:-1])])
    n = int(sizes.sum())
    # Python integers: n cubed exceeds 64 bits from two million values on.
    untied = n * (n * n - 1) - sum(tie * (tie * tie - 1) for tie in ties.tolist())
    return sizes, means, untied / (12 * (n - 1)) if untied else 0.0
