"""Root finding for power curves: the real or whole number at which rising power reaches its target."""

from __future__ import annotations

import math
from collections.abc import Callable

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Alternative, check_alternative, check_shares
from pytest_crucible.stats.number_format import number

# No realistic run is larger; beyond it a whole number of samples is reported as None.
MOST_SAMPLES = 10**9
# Enumerated power is a sawtooth in n: a size counts only if the next ten sizes have the power too.
STEADY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """A required sample size: of each arm, unless the function says otherwise."""

    n: float
    """The sample size as a real number, for comparing designs; infinite when no number is enough."""
    ceiling: int | None
    """The whole number of samples to take; None when no number is enough."""
    power: float | None
    """The power that this whole number has."""

    def __str__(self) -> str:
        if self.ceiling is None:
            return "no number of samples is enough"
        return f"n={self.ceiling:,}, power {number(self.power)}"


# The sample size of an effect that no number of samples detects.
NEVER = SampleSize(n=math.inf, ceiling=None, power=None)


def check_power(power: float, alpha: float) -> None:
    """Raise ValueError unless 0 < alpha < power < 1.

    A power of alpha or less needs no samples: there is nothing to plan.
    """
    check_shares(alpha=alpha, power=power)
    if power <= alpha:
        raise ValueError(f"power must be above alpha, not {power!r} at alpha {alpha!r}")


def toward(effect: float, alternative: Alternative) -> float:
    """Return the effect measured towards the alternative: positive on the side that the test can detect."""
    check_alternative(alternative)
    if alternative == "two-sided":
        return abs(effect)
    return effect if alternative == "greater" else -effect


def check_effect(value: float, name: str) -> None:
    """Raise ValueError unless the effect is a finite number."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value!r}")


def sample_size(power_of: Callable[[float], float], power: float, *, fewest: float) -> SampleSize:
    """Return the smallest n from `fewest` on at which rising power reaches the target."""
    n = rising_root(lambda n: power_of(n) - power, fewest)
    ceiling = round_up(n)
    return SampleSize(n=n, ceiling=ceiling, power=power_of(ceiling))


def round_up(n: float) -> int:
    """Return n rounded up to a whole number, at least 1.

    A number that is whole except for rounding error stays as it is.
    """
    # The factor absorbs the rounding of the root, so that 64.00000000001 stays 64.
    return max(math.ceil(n * (1 - 1e-12)), 1)


def smallest_integer(proves: Callable[[int], bool], fewest: int) -> int | None:
    """Return the smallest whole n from `fewest` on for which `proves` holds; None beyond MOST_SAMPLES.

    Doubles, then halves.
    """
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


def rising_root(function: Callable[[float], float], low: float, *, most: float = math.inf, error: float = 0.0) -> float:
    """Return the zero of a rising function from `low` on; `low` itself when the function is not negative there.

    The bracket is found by doubling, up to `most`, which is returned where the function is still negative there. `error` as in
    `bracketed_root`.
    """
    at_low = function(low)
    if at_low >= 0:
        return low
    high = min(2 * low or 1.0, most)
    while (at_high := function(high)) < 0:
        if high >= most:
            return most
        low, at_low, high = high, at_high, min(2 * high, most)
    return bracketed_root(function, low, at_low, high, at_high, error=error)


def bracketed_root(
    function: Callable[[float], float], a: float, at_a: float, b: float, at_b: float, *, error: float = 0.0
) -> float:
    """Return the root in a bracket, by inverse quadratic interpolation where it is safe and halving elsewhere.

    `error` is how far it may be off; by default it is the last bit of a double. Chandrupatla 1997 (Adv Eng Softw 28:145).
    scipy.optimize has the same, and takes 0.16 s to import, which a verdict would wait for.
    """
    fraction, c, at_c = 0.5, a, at_a
    while True:
        x = a + fraction * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, b, at_c, at_b = b, a, at_b, at_a
        a, at_a = x, at_x
        best, at_best = (a, at_a) if abs(at_a) < abs(at_b) else (b, at_b)
        tolerance = max(2e-16 * abs(best), error) / abs(b - a) if b != a else 1.0
        if at_best == 0 or tolerance >= 0.25:
            return best
        xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        fraction = 0.5
        # Chandrupatla's criterion: inside it, inverse quadratic interpolation is monotone and stays in the bracket.
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            fraction = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (
                at_c - at_b
            )
        fraction = min(max(fraction, tolerance), 1 - tolerance)
