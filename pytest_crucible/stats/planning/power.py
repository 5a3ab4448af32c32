"""How small a difference n samples can detect, and how many samples a difference needs.

For planning, and for reading "no difference was found". Never for power "observed" after the
fact, which only restates p.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import nctdtr, ndtr, ndtri, stdtrit

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.stats.observations import check_share


def detectable_paired_proportions(
    n: int, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest difference of paired proportions that a two-sided test on n pairs detects, or None if none is.

    `discordance` is the share of pairs in which the arms disagree; a difference cannot be larger. Connor (1987) solved
    for the difference: with its square roots squared away the equation is a quadratic.

    >>> round(detectable_paired_proportions(200, 0.1), 3)
    0.062
    """
    z, reach = _quantiles(alpha / 2, power)
    _check_discordance(discordance)
    inner = n + reach * reach - z * z
    if n < 1 or inner < 0:
        return None
    difference = math.sqrt(discordance) * (math.sqrt(n) * z + reach * math.sqrt(inner)) / (n + reach * reach)
    return difference if 0 < difference <= discordance else None


def samples_for_paired_proportions(
    difference: float, discordance: float, *, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Pairs that a two-sided test needs for this difference. None for 0, which no number of pairs detects.

    Connor 1987 (Biometrics 43:207). Raises ValueError when the difference exceeds the discordance.

    >>> samples_for_paired_proportions(0.07, 0.23)
    367
    """
    z, reach = _quantiles(alpha / 2, power)
    _check_discordance(discordance)
    if abs(difference) > discordance + 1e-12:
        raise ValueError(f"a difference of {difference!r} cannot come from a discordance of {discordance!r}")
    if difference == 0:
        return None
    spread = math.sqrt(max(discordance - difference * difference, 0.0))
    return _whole(((z * math.sqrt(discordance) + reach * spread) / difference) ** 2)


def power_paired_proportions(n: int, difference: float, discordance: float, *, alpha: float = 0.05) -> float:
    """Chance that a two-sided test on n pairs detects this difference. Connor 1987.

    >>> round(power_paired_proportions(300, 0.07, 0.23), 4)
    0.7171
    """
    check_share(alpha, "alpha")
    _check_discordance(discordance)
    spread = math.sqrt(max(discordance - difference * difference, 0.0))
    distance = math.sqrt(n) * abs(difference) + float(ndtri(alpha / 2)) * math.sqrt(discordance)
    return float(ndtr(distance / spread)) if spread else float(distance > 0)


def detectable_mean(n: int, deviation: float, *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Smallest mean difference that a two-sided t test on n values with this standard deviation detects.

    Exact, by the noncentral t; R: pwr::pwr.t.test(n, power=power, type="paired") times the deviation. None when the
    deviation is 0: data without variation do not say what they could detect. Raises NotEnoughData below two values.

    >>> round(detectable_mean(50, 1.0), 6)
    0.404183
    """
    if n < 2:
        raise NotEnoughData(f"{n} value(s): the power of a t test needs at least 2")
    _quantiles(alpha / 2, power)
    if not deviation >= 0 or power <= alpha:
        raise ValueError(f"wanted a deviation of at least 0 and power above alpha, not {deviation!r} and {power!r}")
    critical = -float(stdtrit(n - 1, alpha / 2))
    shift = _root(lambda shift: t_power(n - 1, shift, critical) - power)
    return shift / math.sqrt(n) * deviation if deviation else None


def t_power(dof: float, shift: float, critical: float) -> float:
    """P(|T| > critical) for a noncentral t with this shift. Falls back to a normal law where scipy's tails are NaN.

    >>> round(t_power(39, 0.5 * 40**0.5, 2.022691), 6)
    0.869398
    """
    above, below = float(nctdtr(dof, shift, critical)), float(nctdtr(dof, shift, -critical))
    if math.isnan(above):
        # Johnson & Welch 1940: nearly normal, and NaN appears only at many degrees of freedom, where it is.
        above = float(ndtr((critical * (1 - 0.25 / dof) - shift) / math.sqrt(1 + critical * critical / (2 * dof))))
    return 1 - above + (0.0 if math.isnan(below) else below)


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
    z, reach = _quantiles(alpha, power)
    if not deviation >= 0:
        raise ValueError(f"wanted a deviation of at least 0, not {deviation!r}")
    distance = margin + difference
    if distance <= 0:
        return None
    # n = factor * (variance + pseudo / n), solved for n
    factor = ((z + reach) / distance) ** 2
    own = factor * deviation**2
    return _whole((own + math.sqrt(own**2 + 4 * factor * pseudo)) / 2)


def _quantiles(tail: float, power: float) -> tuple[float, float]:
    check_share(tail, "alpha")
    check_share(power, "power")
    return -float(ndtri(tail)), float(ndtri(power))


def _check_discordance(discordance: float) -> None:
    if not 0 <= discordance <= 1:
        raise ValueError(f"discordance is a share between 0 and 1, not {discordance!r}")


def _whole(n: float) -> int:
    """The next whole number, at least 1; a number that is whole but for rounding stays."""
    return max(math.ceil(n * (1 - 1e-12)), 1)


def _root(function: Callable[[float], float]) -> float:
    """Where a rising function that is negative at 0 becomes positive: doubling, then bisection to the last bits."""
    low, high = 0.0, 1.0
    while function(high) < 0:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high
