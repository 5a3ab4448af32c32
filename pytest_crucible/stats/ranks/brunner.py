"""The Brunner-Munzel test: whether one independent arm tends to larger values, with unequal variances allowed."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Alternative, check_alternative, check_share
from pytest_crucible.stats.ranks.ranking import Counts, arms_by_level, doubled_wins, placements
from pytest_crucible.stats.ranks.superiority import cles_interval
from pytest_crucible.stats.results import Effect, Significance
from pytest_crucible.stats.tails import t_interval, t_p_value


def brunner_munzel(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return the Brunner-Munzel test of P(candidate > baseline) + P(equal) / 2 = 1/2, with the share's t interval.

    Brunner & Munzel 2000 (Biom. J. 42:17), Satterthwaite's degrees of freedom. The statistic is positive when the
    candidate tends to be larger: scipy.stats.brunnermunzel(baseline, candidate). The interval is two-sided under each
    alternative and may leave [0, 1]; the effect "cles" carries Newcombe's, which does not.

    Separated arms have no variance: statistic and interval are None, and p is that of the exact permutation
    distribution. Raises NotEnoughData below two values in an arm.

    >>> result = brunner_munzel([3, 3, 4, 3, 1, 2, 3, 1, 1, 5, 4], [1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 1, 1])
    >>> round(result.estimate, 4), round(result.statistic, 4), round(result.p_value, 4)
    (0.789, 3.1375, 0.0058)
    """
    check_share(level, "level")
    check_alternative(alternative)
    first, second = arms_by_level(candidate, baseline, fewest=2)
    n1, n2 = int(first.sum()), int(second.sum())
    estimate = doubled_wins(first, second) / (2 * n1 * n2)
    effect = Effect(name="cles", value=estimate, interval=cles_interval(estimate, n1, n2, level=level))
    # Brunner & Munzel 2000, on the scale of the share: placements over the other arm's size.
    parts = _placement_variance(first, second) / n1, _placement_variance(second, first) / n2
    if not sum(parts):
        return Significance(
            method="brunner-munzel",
            statistic=None,
            p_value=_separated_p_value(first, second, alternative),
            estimate=estimate,
            n=(n1, n2),
            effects=(effect,),
            status="degenerate",
            note="all values are equal"
            if first.size == 1
            else "the arms are separated: exact p, see cles for an interval",
        )
    se = math.sqrt(sum(parts))
    # Satterthwaite's approximation, as for Welch's t.
    dof = sum(parts) ** 2 / (parts[0] ** 2 / (n1 - 1) + parts[1] ** 2 / (n2 - 1))
    statistic = (estimate - 0.5) / se
    return Significance(
        method="brunner-munzel",
        statistic=statistic,
        p_value=t_p_value(statistic, dof, alternative),
        dof=(dof,),
        estimate=estimate,
        interval=t_interval(estimate, se, dof, level=level, method="brunner-munzel"),
        se=se,
        n=(n1, n2),
        effects=(effect,),
    )


def _placement_variance(first: Counts, second: Counts) -> float:
    """Return the variance, over the first arm, of the share of the second arm below; 0 exactly if nothing varies."""
    n = int(first.sum())
    places = placements(first, second)
    # Whole numbers: the variance is 0 exactly, without a tolerance.
    if np.ptp(places[first > 0]) == 0:
        return 0.0
    shares = places / (2 * int(second.sum()))
    return float(first @ (shares - float(first @ shares) / n) ** 2) / (n - 1)


def _separated_p_value(first: Counts, second: Counts, alternative: Alternative) -> float:
    """Return the exact p-value: one of C(n1 + n2, n1) arrangements, and the opposite one unless ties exclude it."""
    if first.size == 1:
        return 1.0
    above = doubled_wins(first, second) > 0
    if alternative != "two-sided":
        return _share(first, second) if above == (alternative == "greater") else 1.0
    lower, n = (second if above else first), int(first.sum() + second.sum())
    opposite = n - int(lower.sum()) in np.cumsum(first + second)
    return min(1.0, _share(first, second) * (2 if opposite else 1))


def _share(first: Counts, second: Counts) -> float:
    return 1 / math.comb(int(first.sum() + second.sum()), int(first.sum()))
