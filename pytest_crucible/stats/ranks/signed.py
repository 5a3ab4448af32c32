"""Tests of paired differences by their signs and ranks: Wilcoxon's signed-rank test and the sign test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Alternative, Array, check_alternative, check_share
from pytest_crucible.stats.counts.correlations import fisher_interval
from pytest_crucible.stats.proportions.binomial import binomial_p_value
from pytest_crucible.stats.proportions.one import clopper_pearson_interval
from pytest_crucible.stats.ranks.exact import SIGNED, Method, is_exact, signed_tail
from pytest_crucible.stats.ranks.ranking import Counts, doubled_ranks, rounded_differences
from pytest_crucible.stats.ranks.shifts import pseudo_median
from pytest_crucible.stats.ranks.two_samples import corrected_p_value
from pytest_crucible.stats.results import Effect, Significance

ZeroMethod = Literal["pratt", "wilcox"]
"""pratt: zeros are ranked, then dropped. wilcox: zeros are dropped first, from estimate and interval too, as in R."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRank(Significance):
    """A signed-rank test. The statistic is W+; estimate and interval are the pseudo-median of the differences."""

    w_plus: float
    w_minus: float
    z: float | None
    """W+ standardised given ties and zeros, without continuity correction; None when all differences are 0."""
    zeros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTest(Significance):
    """A sign test. The statistic is the number of positive differences, the estimate their share among non-zero ones."""

    positive: int
    negative: int
    zeros: int


def wilcoxon_signed_rank(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    zero_method: ZeroMethod = "pratt",
    method: Method = "auto",
    correction: bool = True,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> SignedRank:
    """Return the Wilcoxon signed-rank test with ties and zeros; effect: the matched-pairs "rank biserial" correlation.

    exact: the distribution of all sign flips given ties and zeros; R: wilcox.test(d, exact = TRUE),
    coin::wilcoxsign_test(distribution = "exact"). asymptotic: normal, with a continuity correction of 1/2 unless
    `correction` is False (then coin::wilcoxsign_test). auto: exact up to 200 non-zero differences (2,000 with zeros),
    for any values. Differences are rounded, see `rounded_differences`; without a baseline the values are differences
    already. For the interval see `pseudo_median`. All differences 0 is degenerate: p is 1. Raises NotEnoughData without
    pairs.

    >>> result = wilcoxon_signed_rank([0.72, 0.68, 0.75, 0.71, 0.69], [0.6, 0.55, 0.61, 0.56, 0.53])
    >>> result.w_plus, result.w_minus, result.p_value, round(result.estimate, 6)
    (15.0, 0.0, 0.0625, 0.14)
    """
    check_alternative(alternative)
    differences = _differences(candidate, baseline, level)
    pairs, plus, minus, ranks = differences.size, *_signed_ranks(differences, zero_method)
    # Pratt (1959) ranks the zeros, so that the sum of ranks goes up to n (n + 1) / 2 with them.
    ranked = pairs if zero_method == "pratt" else ranks.size
    # Zeros enlarge the ranks, and with them the table of the exact distribution, but cost less than other differences.
    exact = is_exact(method, max(ranks.size, ranked // 10), SIGNED)
    procedure = "exact" if exact else "asymptotic" + (", continuity corrected" if correction else "")
    name, effect = (
        f"wilcoxon signed-rank, {procedure}, {zero_method}",
        _rank_biserial(plus, minus, ranked, ranks, level),
    )
    if not ranks.size:
        return SignedRank(
            method=name, statistic=0.0, w_plus=0.0, w_minus=0.0, z=None, p_value=1.0, estimate=0.0, n=(pairs,),
            zeros=pairs, effects=(effect,), status="degenerate", note="all differences are 0",
        )  # fmt: skip
    deviation, deviation_sd = (plus - minus) / 4, math.sqrt(float(ranks @ ranks)) / 4
    if exact:
        p_value = _exact_p_value(ranks.tolist(), plus, minus, alternative)
    else:
        p_value = corrected_p_value(deviation, deviation_sd, correction, alternative)
    ranked_differences = differences[differences != 0] if zero_method == "wilcox" else differences
    # The estimate may have more differences than the test, and an exact interval for them would take too long.
    feasible: Method = method if ranked_differences.size <= SIGNED.refused else "asymptotic"
    shift = pseudo_median(
        ranked_differences, level=level, method=feasible, correction=correction, alternative=alternative
    )
    return SignedRank(
        method=name,
        statistic=plus / 2,
        w_plus=plus / 2,
        w_minus=minus / 2,
        z=deviation / deviation_sd,
        p_value=p_value,
        estimate=shift.value,
        interval=shift.interval,
        n=(pairs,),
        zeros=pairs - ranks.size,
        effects=(effect,),
        note=shift.note,
    )


def rank_biserial_paired(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    zero_method: ZeroMethod = "wilcox",
    level: float = 0.95,
) -> Effect:
    """Return the matched-pairs rank-biserial correlation (W+ - W-) / (W+ + W-), Kerby 2014, with a Fisher z interval.

    R: effectsize::rank_biserial(candidate, baseline, paired = TRUE), whose standard error sqrt(sum of squared ranks) /
    (sum of ranks) is that under no effect. None when all differences are 0; no interval when all have one sign.

    >>> effect = rank_biserial_paired([4, 2, 5, 4, 3, 1], [3, 4, 1, 1, 3, 2])
    >>> round(effect.value, 4), round(effect.interval.low, 4), round(effect.interval.high, 4)
    (0.4, -0.4971, 0.8838)
    """
    differences = _differences(candidate, baseline, level)
    plus, minus, ranks = _signed_ranks(differences, zero_method)
    return _rank_biserial(plus, minus, differences.size if zero_method == "pratt" else ranks.size, ranks, level)


def sign_test(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> SignTest:
    """Return the exact sign test; R: binom.test(positive, positive + negative), with its Clopper-Pearson interval.

    The interval is two-sided under each alternative. All differences 0 is degenerate: p is 1. Raises NotEnoughData
    without pairs.

    >>> result = sign_test([3, 4, 5, 4, 4, 2], [2, 3, 3, 1, 4, 1])
    >>> result.positive, result.negative, result.p_value
    (5, 0, 0.0625)
    """
    check_alternative(alternative)
    differences = _differences(candidate, baseline, level)
    positive, negative = int((differences > 0).sum()), int((differences < 0).sum())
    signs = positive + negative
    return SignTest(
        method="sign test, exact",
        statistic=float(positive),
        p_value=binomial_p_value(positive, signs, 0.5, alternative),
        estimate=positive / signs if signs else None,
        interval=clopper_pearson_interval(positive, signs, level=level) if signs else None,
        n=(differences.size,),
        positive=positive,
        negative=negative,
        zeros=differences.size - signs,
        status="ok" if signs else "degenerate",
        note="" if signs else "all differences are 0",
    )


def _differences(candidate: npt.ArrayLike, baseline: npt.ArrayLike | None, level: float) -> Array:
    check_share(level, "level")
    differences = rounded_differences(candidate, baseline)
    if not differences.size:
        raise NotEnoughData("no pairs: signs and ranks need at least one difference")
    return differences


def _signed_ranks(differences: Array, zero_method: ZeroMethod) -> tuple[int, int, Counts]:
    """Return 2 W+, 2 W-, and the doubled ranks of all differences that are not 0."""
    if zero_method not in ("pratt", "wilcox"):
        raise ValueError(f"the zero method must be pratt or wilcox, not {zero_method!r}")
    if zero_method == "wilcox":
        differences = differences[differences != 0]
    ranks, _ = doubled_ranks(np.abs(differences))
    return int(ranks[differences > 0].sum()), int(ranks[differences < 0].sum()), ranks[differences != 0]


def _exact_p_value(ranks: list[int], plus: int, minus: int, alternative: Alternative) -> float:
    # Without ties all doubled ranks are even; dividing by 2 halves the work.
    step = math.gcd(*ranks)
    smaller = [rank // step for rank in ranks]
    if alternative == "two-sided":
        return min(1.0, 2 * signed_tail(smaller, min(plus, minus) // step))
    return signed_tail(smaller, (minus if alternative == "greater" else plus) // step)


def _rank_biserial(plus: int, minus: int, ranked: int, ranks: Counts, level: float) -> Effect:
    name, total = "rank biserial", plus + minus
    if not total:
        return Effect(name=name, value=None, note="all differences are 0")
    value = (plus - minus) / total
    # Ranks without ties, as effectsize takes them: those above the zeros, of which there are ranked - ranks.size.
    untied = np.arange(ranked - ranks.size + 1, ranked + 1, dtype=np.float64)
    se = math.sqrt(float(untied @ untied)) / float(untied.sum())
    interval = fisher_interval(value, se, level=level, method="fisher")
    return Effect(name=name, value=value, interval=interval, note="" if interval else "all differences have one sign")
