"""Power, sample size and provable margin of a non-inferiority test."""

from __future__ import annotations

from scipy.special import ndtri

from pytest_crucible.stats.arrays import check_share
from pytest_crucible.stats.planning.roots import check_effect, round_up
from pytest_crucible.stats.planning.t_tests import detectable_t, power_t


def samples_for_margin(
    margin: float,
    deviation: float,
    *,
    difference: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Return the samples needed for a one-sided bound to clear -margin, given the true `difference`.

    Normal approximation, for yes or no; `samples_by_gaffke` plans margins of scores. None when the true difference is at
    or beyond the margin: more samples only prove that.

    >>> samples_for_margin(0.05, 0.4)
    396
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    _check_deviation(deviation)
    distance = margin + difference
    # A true difference at or beyond the margin is never proven inferior-free: more samples only prove the opposite.
    if distance <= 0:
        return None
    return round_up(((float(ndtri(power)) - float(ndtri(alpha))) * deviation / distance) ** 2)


def power_for_margin(n: int, margin: float, deviation: float, *, difference: float = 0.0, alpha: float = 0.05) -> float:
    """Return the chance that a one-sided t bound from n pairs clears -margin.

    R: pwr::pwr.t.test(alternative="greater"). Alpha when the true difference is -margin exactly. With a deviation of 0
    it is 1 or 0. Raises NotEnoughData below two pairs.

    >>> round(power_for_margin(396, 0.05, 0.4), 3)
    0.799
    """
    _check_deviation(deviation)
    check_effect(margin, "margin")
    if deviation == 0:
        check_share(alpha, "alpha")
        return float(margin + difference > 0)
    # Testing "difference > -margin" is a one-sided t test of an effect of margin + difference.
    return power_t(n, (margin + difference) / deviation, alpha=alpha, alternative="greater")


def detectable_margin(
    n: int, deviation: float, *, difference: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Return the smallest margin that n pairs prove with this power, given the true `difference`.

    Use it to choose n before a run. Choose the margin itself by the cost of a loss, never by what n can prove.

    >>> round(detectable_margin(400, 0.4), 4)
    0.0498
    """
    _check_deviation(deviation)
    check_effect(difference, "difference")
    return detectable_t(n, alpha=alpha, power=power, alternative="greater") * deviation - difference


def _check_deviation(deviation: float) -> None:
    if not deviation >= 0:
        raise ValueError(f"a standard deviation must be at least 0, not {deviation!r}")
