"""Plan the next sample from the errors measured in a run: the difference that the same n shows, and the n that would decide.

With few groups, the measured errors are uncertain themselves. A plan that took them as known would promise a power of 80 % and
have 70 %. Degrees of freedom are those of the error, such as Satterthwaite's for groups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtr, ndtri, stdtrit

from pytest_crucible.stats.arrays import check_shares
from pytest_crucible.stats.planning.paired_proportions import (
    McNemar,
    power_mcnemar,
    power_paired_proportions,
    samples_for_mcnemar,
    samples_for_paired_proportions,
)
from pytest_crucible.stats.planning.roots import rising_root, smallest_integer
from pytest_crucible.stats.proportions.paired import tango_statistic

POWER = 0.8
# Discordant pairs from which the normal formula is as good as enumeration, which takes longer the more there are.
MANY_DISCORDANT = 200
# See `_like_the_test`: the smallest n at which four changes, all for the worse, are proof.
FIFTY = 50
# A table this large has its shares to six digits.
_LARGE = 10**6


def detectable_by_error(se: float, dof: float, *, alpha: float = 0.05) -> float | None:
    """Return the smallest difference that a two-sided t test of a new run of this size shows with a power of 80 %.

    `se` is the standard error that a run measured, on `dof` degrees of freedom. The power is the average over the error of
    that run and of the new one: (Z + d) / s > t, with t s - d s' nearly normal. None if no difference is large enough.
    """
    check_shares(alpha=alpha)
    critical, reach = -float(stdtrit(dof, alpha / 2)), float(ndtri(POWER))
    # (d - t) m = z sqrt(1 + (t^2 + d^2) / (2 dof)), where m is the mean of s: a quadratic in d.
    mean, spread = (1 - 1 / (4 * dof)) ** 2, reach**2 / (2 * dof)
    if mean <= spread:
        return None
    constant = critical**2 * (mean - spread) - reach**2
    root = (critical * mean) ** 2 - (mean - spread) * constant
    return se * (critical * mean + math.copysign(math.sqrt(root), reach)) / (mean - spread)


def detectable_paired_change(n: int, discordance: float, *, alpha: float = 0.05) -> float | None:
    """Return the smallest difference of paired proportions that n pairs show with a power of 80 %; None if none is found.

    `discordance` is the share of pairs that disagree. A difference beyond it is one in which all changes go one way, so
    that the discordance is the difference itself. McNemar's test by enumeration; Connor's formula for many pairs.

    >>> round(detectable_paired_change(200, 0.2), 3), round(detectable_paired_change(200, 0.01), 3)
    (0.087, 0.027)
    """
    check_shares(alpha=alpha)

    def shortfall(difference: float) -> float:
        both = max(discordance, difference)
        if n * both > MANY_DISCORDANT:
            return power_paired_proportions(n, difference, both, alpha=alpha) - POWER
        rates = ((both + difference) / 2, (both - difference) / 2)
        return power_mcnemar(n, *rates, method=_like_the_test(n), alpha=alpha) - POWER

    return None if shortfall(1.0) < 0 else rising_root(shortfall, 0.0, most=1.0)


def samples_for_paired_change(
    difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Return the number of pairs that show a difference of proportions with this power. None for a difference of 0."""
    difference = abs(difference)
    if not difference:
        return None
    both = max(discordance, difference)
    needed = samples_for_paired_proportions(difference, both, alpha=alpha, power=power)
    if needed is None or needed * both > MANY_DISCORDANT:
        return needed
    rates = ((both + difference) / 2, (both - difference) / 2)
    return samples_for_mcnemar(*rates, method=_like_the_test(needed), alpha=alpha, power=power).ceiling


def _like_the_test(n: int) -> McNemar:
    """Return the enumerated test that rejects the same outcomes of n pairs as the package's own test."""
    # Four changes, all for the worse, are proof among fifty pairs and not among twenty.
    return "asymptotic" if n >= FIFTY else "mid-p"


def samples_to_clear(
    distances: tuple[float, ...],
    deviation: float,
    *,
    dof_share: float = math.inf,
    pseudo: float = 0.0,
    alpha: float = 0.05,
) -> int | None:
    """Return the samples with which one-sided t bounds clear all of these distances from the true difference, at a power of 80 %.

    `dof_share` is the number of degrees of freedom for each sample (of groups: less than 1), and `pseudo` the sum of squares
    of the pseudo-observations of an augmented bound. Two distances are those to both ends of an equivalence margin. None
    where a distance is not above 0, and where nothing varies.
    """
    check_shares(alpha=alpha)
    if min(distances) <= 0 or not (deviation or pseudo):
        return None

    def clears(n: int) -> bool:
        error = math.sqrt(deviation**2 / n + pseudo / n**2)
        chances = [_chance_to_clear(distance / error, n * dof_share, alpha) for distance in distances]
        return sum(chances) - (len(chances) - 1) >= POWER

    return smallest_integer(clears, 2)


def samples_by_evidence(n: int, p_value: float, *, alpha: float) -> int | None:
    """Return the samples with which a one-sided p-value of n falls to alpha with a power of 80 %, if the estimate is the truth.

    The evidence, as a normal deviate, grows with the root of n. More than n if the p-value is above alpha; None at 0.5 and above.

    >>> samples_by_evidence(100, 0.05, alpha=0.025), samples_by_evidence(100, 0.5, alpha=0.025)
    (291, None)
    """
    check_shares(alpha=alpha)
    evidence = -float(ndtri(p_value))
    if evidence <= 0:
        return None
    return max(n + 1, math.ceil(n * ((float(ndtri(POWER)) - float(ndtri(alpha))) / evidence) ** 2))


def samples_by_bound(n: int, to_bound: float, to_limit: float, *, alpha: float) -> int:
    """Return the samples whose bound reaches a limit with a power of 80 %, from the distances of both from the estimate.

    The distance of a bound at alpha shrinks with the root of n. More than n if the limit is nearer than the bound.

    >>> samples_by_bound(100, 0.05, 0.04, alpha=0.05)
    358
    """
    check_shares(alpha=alpha)
    reserve = 1 - float(ndtri(POWER)) / float(ndtri(alpha))
    return max(n + 1, math.ceil(n * (to_bound / to_limit * reserve) ** 2))


MOST_POWER = 1 - 1e-9


def share_power(distances: Sequence[float], *, alpha: float) -> list[float]:
    """Return the power that each bound needs, so that all of them clear their distances with a power of 80 %.

    The nearest limit is missed most often. By the normal approximation, with the errors that give all of them this power.

    >>> [round(share, 3) for share in share_power((0.05, 0.05), alpha=0.05)]
    [0.9, 0.9]
    >>> [round(share, 3) for share in share_power((0.05, 0.08), alpha=0.05)]
    [0.809, 0.991]
    """
    critical = -float(ndtri(alpha))

    def excess(errors: float) -> float:
        return 1 - POWER - sum(float(ndtr(critical - distance * errors)) for distance in distances)

    errors = rising_root(excess, 0.0)
    # A far limit is all but certainly cleared; a power of 1 has no sample size.
    return [min(1 - float(ndtr(critical - distance * errors)), MOST_POWER) for distance in distances]


def _chance_to_clear(shift: float, dof: float, alpha: float) -> float:
    """Return P(T > t) for a noncentral t, by the normal approximation (Johnson & Welch 1940)."""
    if math.isinf(dof):
        return float(ndtr(shift + float(ndtri(alpha))))
    critical = -float(stdtrit(max(dof, 1.0), alpha))
    return float(ndtr((shift - critical * (1 - 1 / (4 * dof))) / math.sqrt(1 + critical**2 / (2 * dof))))


def samples_for_paired_margin(
    margins: tuple[float, ...], discordance: float, *, difference: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Return the pairs with which Tango's one-sided bounds clear all of these margins, given the true `difference`.

    A margin is a difference that is to be excluded, on either side: -0.05 for non-inferiority, (-0.05, 0.05) for
    equivalence. The bound's variance is the one under the margin (Tango 1998), which few discordant pairs make larger than
    that of the data. None if the difference is a margin itself, and for a margin that no two shares could exceed.
    """
    check_shares(alpha=alpha, power=power)
    if max(abs(margin) for margin in margins) >= 1:
        return None
    both = min(1.0, max(discordance, abs(difference)))
    spread = math.sqrt(max(both - difference**2, 0.0))
    shifts = [(abs(difference - margin), _spread_under(margin, both, difference)) for margin in margins]
    if min(distance for distance, _ in shifts) == 0:
        return None

    def clears(n: int) -> bool:
        excess = [math.sqrt(n) * distance + float(ndtri(alpha)) * under for distance, under in shifts]
        chances = [float(ndtr(value / spread)) if spread else float(value >= 0) for value in excess]
        return sum(chances) - (len(chances) - 1) >= power

    return smallest_integer(clears, 1)


def _spread_under(margin: float, discordance: float, difference: float) -> float:
    """Return the standard deviation of one pair's difference that Tango's statistic assumes under the margin."""
    gained = round(_LARGE * (discordance + difference) / 2)
    lost = round(_LARGE * (discordance - difference) / 2)
    statistic = tango_statistic(gained, lost, _LARGE, margin)
    return abs((gained - lost) / _LARGE - margin) * math.sqrt(_LARGE) / abs(statistic) if statistic else 0.0
