"""The Mann-Whitney test: one independent arm is stochastically larger than the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative
from pytest_crucible.stats.ranks.exact import WINS, Method, is_exact, wins_tail
from pytest_crucible.stats.ranks.ranking import Counts, arms_by_level, doubled_wins
from pytest_crucible.stats.ranks.shifts import hodges_lehmann
from pytest_crucible.stats.ranks.superiority import cles_interval, double_interval
from pytest_crucible.stats.results import Effect, Significance
from pytest_crucible.stats.tails import normal_p_value


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSum(Significance):
    """A Mann-Whitney test. The statistic is U of the candidate; estimate and interval are the Hodges-Lehmann shift."""

    z: float | None
    """U standardised with the tie-corrected variance, without continuity correction; None when all values are equal."""


def mann_whitney(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    method: Method = "auto",
    correction: bool = True,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> RankSum:
    """Return the Mann-Whitney U test (Wilcoxon rank sum) with ties; effects: "cles" and "rank biserial".

    exact: the distribution given the ties; R: wilcox.test(exact = TRUE), coin::wilcox_test(distribution = "exact"). The
    two-sided p-value is the probability of a U at least as far from its mean. asymptotic: normal with the tie-corrected
    variance and, unless `correction` is False, a continuity correction of 1/2; R: wilcox.test(exact = FALSE). auto: exact
    up to n1 * n2 = 10,000, whatever the values. For the interval see `hodges_lehmann`; the effects have Newcombe's. All
    values equal is degenerate: p is 1, "cles" 0.5 and "rank biserial" 0. Raises NotEnoughData for an empty arm.

    >>> result = mann_whitney([0.9, 0.8, 0.95, 0.85], [0.1, 0.2, 0.3, 0.15])
    >>> result.statistic, round(result.p_value, 6), round(result.estimate, 6), result.effects[1].value
    (16.0, 0.028571, 0.7, 1.0)
    """
    first, second = arms_by_level(candidate, baseline)
    n1, n2 = int(first.sum()), int(second.sum())
    wins, variance = doubled_wins(first, second), _variance(first + second, n1, n2)
    exact = is_exact(method, n1 * n2, WINS)
    procedure = "exact" if exact else "asymptotic" + (", continuity corrected" if correction else "")
    shift = hodges_lehmann(
        candidate, baseline, level=level, method=method, correction=correction, alternative=alternative
    )
    share = cles_interval(wins / (2 * n1 * n2), n1, n2, level=level)
    deviation = (wins - n1 * n2) / 2
    if not variance:
        p_value = 1.0
    elif exact:
        p_value = _exact_p_value((first + second).tolist(), n1, n2, wins, alternative)
    else:
        p_value = corrected_p_value(deviation, math.sqrt(variance), correction, alternative)
    return RankSum(
        method=f"mann-whitney, {procedure}",
        statistic=wins / 2,
        z=deviation / math.sqrt(variance) if variance else None,
        p_value=p_value,
        estimate=shift.value,
        interval=shift.interval,
        n=(n1, n2),
        effects=(
            Effect(name="cles", value=wins / (2 * n1 * n2), interval=share),
            Effect(name="rank biserial", value=(wins - n1 * n2) / (n1 * n2), interval=double_interval(share)),
        ),
        status="ok" if variance else "degenerate",
        note=shift.note if variance else "all values are equal",
    )


def corrected_p_value(deviation: float, deviation_sd: float, correction: bool, alternative: Alternative) -> float:
    """Return the p-value of a rank sum's deviation from its mean.

    The two-sided continuity correction of 1/2 never crosses the mean.
    """
    half = 0.5 if correction else 0.0
    if alternative == "two-sided":
        return normal_p_value(max(0.0, abs(deviation) - half) / deviation_sd)
    towards = deviation - half if alternative == "greater" else deviation + half
    return normal_p_value(towards / deviation_sd, alternative)


def _variance(sizes: Counts, n1: int, n2: int) -> float:
    # The tie-corrected variance of U; floats, because the cubes of ties overflow 64-bit integers.
    n, ties = n1 + n2, sizes.astype(np.float64)
    if sizes.size == 1:
        return 0.0
    return n1 * n2 / 12 * (n + 1 - float((ties**3 - ties).sum()) / (n * (n - 1)))


def _exact_p_value(sizes: list[int], n1: int, n2: int, wins: int, alternative: Alternative) -> float:
    losses = 2 * n1 * n2 - wins
    if alternative == "greater":
        return wins_tail(sizes, n2, losses)
    if alternative == "less":
        return wins_tail(sizes, n1, wins)
    reach = min(wins, losses)
    # U at its mean: everything is at least as extreme.
    if reach == n1 * n2:
        return 1.0
    below = wins_tail(sizes, n1, reach)
    return min(1.0, below + (below if n1 == n2 else wins_tail(sizes, n2, reach)))
