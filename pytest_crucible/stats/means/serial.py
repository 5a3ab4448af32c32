"""Correlation of consecutive samples, which makes a mean less certain than its tests assume.

Samples of one conversation, page or day often stand side by side in a dataset and are alike. Every test of independent samples then
errs too often: with an autocorrelation of .5 a test at 5 % errs in 26 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from pytest_crucible.stats.arrays import Array, finite, is_constant
from pytest_crucible.stats.resampling.draws import Seed, generator

# A smaller correlation is not worth a warning: at .1, the samples still count like 82 % of them.
_SMALLEST = 0.1
# p = 1 / 1,000 if no random order has as high a correlation.
_ORDERS = 999
# Above, the normal tail is exact enough for a correlation of .1, and random orders would take a second.
_MOST_SHUFFLED = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialCorrelation:
    """The correlation of each value with the following one."""

    correlation: float
    p_value: float
    """One-sided, of "all orders of these values are equally likely"."""
    n: int

    @property
    def effective_n(self) -> float:
        """The number of independent values whose mean would be as certain (autoregression of order 1)."""
        return self.n * (1 - self.correlation) / (1 + self.correlation)


def serial_correlation(values: npt.ArrayLike, *, rng: Seed = 0) -> SerialCorrelation | None:
    """Return the lag-1 autocorrelation of values in their order; None of fewer than 20 values, or of equal ones.

    R: acf(values, 1). The p-value is that of the normal tail (Anderson 1942, Ann. Math. Stat. 13:1) where this is large or the
    correlation below .1, else of 999 random orders: a few values that are not 0 stand side by side by chance far more often than
    the normal tail has it.

    >>> calm = serial_correlation([1.0, -1.0] * 20)
    >>> round(calm.correlation, 3), calm.p_value > 0.99
    (-0.975, True)
    >>> steps = serial_correlation(np.repeat([1.0, -1.0, 0.5, -0.5], 25))
    >>> steps.p_value, round(steps.effective_n)
    (0.001, 4)
    """
    array = finite(values)
    if array.size < 20 or is_constant(array):
        return None
    centred = array - array.mean()
    squares = float(centred @ centred)
    products = float(centred[1:] @ centred[:-1])
    correlation, n = products / squares, array.size
    # The expectation of an exchangeable order is -1/n.
    p_value = float(ndtr(-(correlation + 1 / n) * np.sqrt(n)))
    if p_value <= 1 / (_ORDERS + 1) and correlation > _SMALLEST and n <= _MOST_SHUFFLED:
        p_value = _p_value_of_orders(centred, products, rng)
    return SerialCorrelation(correlation=correlation, p_value=p_value, n=n)


def is_noteworthy(serial: SerialCorrelation) -> bool:
    """Return whether the correlation is proven at .001, and large enough to matter."""
    return serial.correlation > _SMALLEST and serial.p_value <= 1 / (_ORDERS + 1)


def _p_value_of_orders(centred: Array, products: float, rng: Seed) -> float:
    generate, _ = generator(rng)
    slack = 1e-9 * float(centred @ centred)
    hits = 0
    for _ in range(_ORDERS):
        order = generate.permutation(centred)
        hits += float(order[1:] @ order[:-1]) >= products - slack
    return (hits + 1) / (_ORDERS + 1)
