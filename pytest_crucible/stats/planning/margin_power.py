"""Power, samples and provable margin of a non-inferiority question: is the difference above -margin?"""

from __future__ import annotations

import math

from scipy.special import ndtri

from pytest_crucible.stats.observations import check_share
from pytest_crucible.stats.planning.roots import check_effect, whole
from pytest_crucible.stats.planning.t_tests import detectable_t, power_t


def samples_for_margin(
    margin: float,
    deviation: float,
    *,
    difference: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    pseudo: float = 0.0,
) -> int | None:
    """Samples until a one-sided bound clears -margin with this power, if the true difference is `difference`.

    Normal approximation. `pseudo` is the sum of squares that an augmented bound adds by its pseudo-observations. None
    when the true difference is at or beyond the margin: more samples only prove that.

    >>> samples_for_margin(0.05, 0.4)
    396
    """
    check_share(alpha, "alpha")
    check_share(power, "power")
    _check_deviation(deviation)
    distance = margin + difference
    if distance <= 0:
        return None
    # n = factor * (variance + pseudo / n), solved for n
    factor = ((float(ndtri(power)) - float(ndtri(alpha))) / distance) ** 2
    own = factor * deviation**2
    return whole((own + math.sqrt(own**2 + 4 * factor * pseudo)) / 2)


def power_for_margin(n: int, margin: float, deviation: float, *, difference: float = 0.0, alpha: float = 0.05) -> float:
    """Chance that a one-sided t bound from n pairs clears -margin; R: pwr::pwr.t.test(alternative="greater").

    Alpha when the true difference is -margin exactly. With a deviation of 0 it is 1 or 0. Raises NotEnoughData below
    two pairs.

    >>> round(power_for_margin(396, 0.05, 0.4), 3)
    0.799
    """
    _check_deviation(deviation)
    check_effect(margin, "margin")
    if deviation == 0:
        check_share(alpha, "alpha")
        return float(margin + difference > 0)
    return power_t(n, (margin + difference) / deviation, alpha=alpha, alternative="greater")


def detectable_margin(
    n: int, deviation: float, *, difference: float = 0.0, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest margin that n pairs prove with this power, if the true difference is `difference`.

    For choosing n before a run. A margin itself is chosen by what a loss would cost, never by what n can prove.

    >>> round(detectable_margin(400, 0.4), 4)
    0.0498
    """
    _check_deviation(deviation)
    check_effect(difference, "difference")
    return detectable_t(n, alpha=alpha, power=power, alternative="greater") * deviation - difference


def _check_deviation(deviation: float) -> None:
    if not deviation >= 0:
        raise ValueError(f"wanted a deviation of at least 0, not {deviation!r}")
