"""Confidence sequences for means without bounds: right as n grows, as a t interval is, but at every n at once.

Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024 (Annals of Statistics 52:2613, arXiv:2103.06476), Theorem 2.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted
from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import ROUNDING, Array, check_share, finite
from pytest_crucible.stats.sequential.record import ConfidenceSequence, running_mean

START = 30
"""First n at which the normal limit is relied on: before it, skewed values would raise the false alarms."""

LARGEST_LOG = 709.0
"""exp of more is infinite, and 1 / it would be p = 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsymptoticInterval:
    """One look at an asymptotic sequence. `e_value` exceeds 1 / alpha exactly when the interval excludes `null`."""

    estimate: float
    interval: Interval
    halfwidth: float
    rho: float
    """How the mixture is spread: sqrt((-2 log alpha + log(1 - 2 log alpha)) / planned)."""
    e_value: float
    p_value: float
    """1 / e_value, at most 1; valid at every look. Over several looks the smallest one stands."""


def asymptotic_interval(
    mean: float, deviation: float, n: int, *, planned: float, alpha: float = 0.05, null: float = 0.0
) -> AsymptoticInterval:
    """The asymptotic sequence after n values with this mean and standard deviation, tightest at `planned` values.

    halfwidth = deviation * sqrt(2 (n rho^2 + 1) / (n rho)^2 * log(sqrt(n rho^2 + 1) / alpha)). Raises NotEnoughData
    below two values and ValueError for a deviation that is not positive.

    >>> look = asymptotic_interval(0.03, 0.3, 100, planned=200)
    >>> round(look.halfwidth, 6), round(look.e_value, 6), look.p_value
    (0.092507, 0.668874, 1.0)
    """
    if n < 2:
        raise NotEnoughData(
            f"{counted(n, 'value')}: an asymptotic interval needs at least 2, and is to be trusted from {START}"
        )
    if not 0 < deviation < math.inf or not math.isfinite(mean):
        raise ValueError(f"wanted a finite mean and a positive deviation, not {mean!r} and {deviation!r}")
    rho = _rho(planned, alpha)
    half = deviation * float(_factor(np.array([float(n)]), rho, alpha)[0])
    log_e = min(float(_log_e(np.array([(mean - null) / deviation]), np.array([float(n)]), rho)[0]), LARGEST_LOG)
    return AsymptoticInterval(
        estimate=mean,
        interval=Interval(low=mean - half, high=mean + half, level=1 - alpha, method="asymptotic"),
        halfwidth=half,
        rho=rho,
        e_value=math.exp(log_e),
        p_value=math.exp(min(-log_e, 0.0)),
    )


def asymptotic_sequence(
    values: npt.ArrayLike, *, planned: float, alpha: float = 0.05, start: int = START, intersect: bool = True
) -> ConfidenceSequence:
    """Asymptotic sequence for the mean of values in their order; infinite ends before `start` and while nothing varies.

    Its error rate is alpha in the limit only. For bounded values `betting_sequence` needs no limit.

    >>> print(asymptotic_sequence([0.1, -0.1, 0.3, 0.1] * 20, planned=80))
    asymptotic: 0.100 [0.052, 0.146] after 80 values, holds at every n with 95 %
    """
    count, mean, deviation, known = _running(values, start)
    half = np.where(known, deviation * _factor(count, _rho(planned, alpha), alpha), np.inf)
    lower, upper = mean - half, mean + half
    if intersect:
        lower, upper = np.maximum.accumulate(lower), np.minimum.accumulate(upper)
    return ConfidenceSequence(lower=lower, upper=upper, estimate=mean, alpha=alpha, method="asymptotic")


def asymptotic_p_values(
    values: npt.ArrayLike, *, planned: float, alpha: float = 0.05, null: float = 0.0, start: int = START
) -> Array:
    """Always-valid p-value after each value for mean = null: 1 before `start`, and it never rises again.

    Below alpha exactly when the sequence with the same options has excluded `null`.

    >>> asymptotic_p_values([0.1, -0.1, 0.2, 0.0] * 20, planned=80)[[0, 39, 79]].round(4).tolist()
    [1.0, 0.0981, 0.0026]
    """
    count, mean, deviation, known = _running(values, start)
    distance = np.where(known, mean - null, 0.0) / np.where(known, deviation, 1.0)
    log_e = np.clip(_log_e(distance, count, _rho(planned, alpha)), 0.0, LARGEST_LOG)
    return np.asarray(np.exp(-np.maximum.accumulate(log_e)))


def running_deviation(values: Array) -> Array:
    """Standard deviation (ddof 1) after each value; 0 after the first."""
    # From the first value: then a large mean does not swallow the spread, and values that have not varied yet give 0.
    centred = values - values[:1]
    count = np.arange(1, values.size + 1)
    squares = np.cumsum(centred**2) - np.cumsum(centred) ** 2 / count
    return np.asarray(np.sqrt(np.maximum(squares, 0.0) / np.maximum(count - 1, 1)))


def _running(values: npt.ArrayLike, start: int) -> tuple[Array, Array, Array, npt.NDArray[np.bool_]]:
    """How many values so far, their mean and deviation, and whether that is enough to rely on."""
    array = finite(values)
    if array.size < 2:
        raise NotEnoughData(f"{counted(array.size, 'value')}: an asymptotic sequence needs at least 2")
    if start < 2:
        raise ValueError(f"an asymptotic sequence starts after at least 2 values, not {start!r}")
    count, deviation = np.arange(1.0, array.size + 1), running_deviation(array)
    known = (count >= start) & (deviation > ROUNDING * np.maximum.accumulate(np.abs(array)))
    return count, running_mean(array), deviation, known


def _rho(planned: float, alpha: float) -> float:
    check_share(alpha, "alpha")
    if not 0 < planned < math.inf:
        raise ValueError(f"the planned number of values must be positive, not {planned!r}")
    threshold = -2 * math.log(alpha)
    return math.sqrt((threshold + math.log1p(threshold)) / planned)


def _factor(n: Array, rho: float, alpha: float) -> Array:
    """The halfwidth in standard deviations."""
    grown = n * rho**2 + 1
    return np.asarray(np.sqrt(2 * grown / (n * rho) ** 2 * (np.log(grown) / 2 - math.log(alpha))))


def _log_e(distance: Array, n: Array, rho: float) -> Array:
    """Log e-value of a mean this many standard deviations from the null."""
    grown = n * rho**2 + 1
    return np.asarray((rho * n * distance) ** 2 / (2 * grown) - np.log(grown) / 2)
