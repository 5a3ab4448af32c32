"""Where a rising curve of power meets the power that is wanted: by a real number, or by a whole one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.numerals import number
from pytest_crucible.stats.observations import Alternative, check_alternative, check_share

MOST_SAMPLES = 10**9
"""Nobody asks a model more often; beyond it a whole number of samples is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """How many samples a question needs: of each arm, unless the function says otherwise."""

    n: float
    """As a real number, for comparing designs; infinite when no number is enough."""
    ceiling: int | None
    """The whole number of samples to take; None when no number is enough."""
    power: float | None
    """The power that this whole number has."""

    def __str__(self) -> str:
        if self.ceiling is None:
            return "no number of samples is enough"
        return f"n={self.ceiling:,}, power {number(self.power)}"


NEVER = SampleSize(n=math.inf, ceiling=None, power=None)
"""The answer to "how many samples show no effect at all?"."""


def check_power(power: float, alpha: float) -> None:
    """Raise ValueError unless 0 < alpha < power < 1: below alpha there is nothing to plan."""
    check_share(alpha, "alpha")
    check_share(power, "power")
    if power <= alpha:
        raise ValueError(f"wanted a power above alpha, not {power!r} at alpha {alpha!r}")


def toward(effect: float, alternative: Alternative) -> float:
    """The effect as seen from the side where it is looked for: positive where the test can find it."""
    check_alternative(alternative)
    if alternative == "two-sided":
        return abs(effect)
    return effect if alternative == "greater" else -effect


def check_effect(value: float, name: str) -> None:
    """Raise ValueError unless the effect is a finite number."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value!r}")


def sample_size(power_of: Callable[[float], float], power: float, *, fewest: float) -> SampleSize:
    """The smallest n from `fewest` on whose power, which rises with n, is the wanted one."""
    n = rising_root(lambda n: power_of(n) - power, fewest)
    ceiling = whole(n)
    return SampleSize(n=n, ceiling=ceiling, power=power_of(ceiling))


def whole(n: float) -> int:
    """The next whole number, at least 1; a number that is whole but for rounding stays."""
    return max(math.ceil(n * (1 - 1e-12)), 1)


def first_whole(proves: Callable[[int], bool], fewest: int) -> int | None:
    """The smallest whole n from `fewest` on that proves it: doubling, then halving. None beyond MOST_SAMPLES."""
    high = fewest
    while not proves(high):
        high *= 2
        if high > MOST_SAMPLES:
            return None
    low = max(high // 2, fewest - 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if proves(middle) else (middle, high)
    return high


def rising_root(function: Callable[[float], float], low: float, *, most: float = math.inf) -> float:
    """Where a rising function becomes 0, from `low` on: `low` itself when it is not negative there.

    The bracket is found by doubling, up to `most`, which is the answer where the function is still negative there.

    >>> round(rising_root(lambda x: x * x - 2, 0.0), 12)
    1.414213562373
    """
    value = function(low)
    if value >= 0:
        return low
    high = min(2 * low or 1.0, most)
    while (above := function(high)) < 0:
        if high >= most:
            return most
        low, value, high = high, above, min(2 * high, most)
    return _chandrupatla(function, low, value, high, above)


def _chandrupatla(function: Callable[[float], float], a: float, at_a: float, b: float, at_b: float) -> float:
    """Inverse quadratic interpolation where it is safe, halving elsewhere. Chandrupatla 1997 (Adv Eng Softw 28:145)."""
    share, c, at_c = 0.5, a, at_a
    while True:
        x = a + share * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, b, at_c, at_b = b, a, at_b, at_a
        a, at_a = x, at_x
        best, at_best = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        tolerance = 2e-16 * abs(best) / abs(b - a) if b != a else 1.0
        if at_best == 0 or tolerance >= 0.25:
            return best
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (
                at_c - at_b
            )
        share = min(max(share, tolerance), 1 - tolerance)
