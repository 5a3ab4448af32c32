"""The price of looking early: the samples of a fixed design, and those after which a sequence stops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from pytest_crucible.stats.arrays import Array, Range, check_share, is_finite_range
from pytest_crucible.stats.planning.t_tests import t_power
from pytest_crucible.stats.sequential.asymptotic import asymptotic_p_values
from pytest_crucible.stats.sequential.confidence_sequence import unit_mean
from pytest_crucible.stats.sequential.wealth import log_gains, stakes

Method = Literal["betting", "asymptotic"]
# Runs end undecided after this many times the samples of the fixed design, but not before SHORTEST samples.
LONGEST = 20
# For large effects: LONGEST times a few samples would end a run too early.
SHORTEST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOfLooking:
    """The sample size of a fixed design, and when a sequence that stops at the null's exclusion would stop.

    None means: not reached.
    """

    fixed_n: int
    """The sample size of a two-sided fixed-n test with this power."""
    median_n: int | None
    """Half of the sequences have stopped by then."""
    n_for_power: int | None
    """A share `power` of the sequences has stopped by then: like for like with `fixed_n`."""
    late_n: int | None
    """90 % of the sequences have stopped by then."""
    stopped_by_fixed_n: float
    """Share of the sequences that have stopped by `fixed_n`."""
    power: float
    method: Method
    runs: int
    seed: int
    longest_n: int

    def __str__(self) -> str:
        median, late = (f"more than {self.longest_n}" if n is None else n for n in (self.median_n, self.late_n))
        return (
            f"fixed n: {self.fixed_n} for a power of {self.power:g}; {self.method} sequence: median {median}, 90 % {late}, "
            f"{100 * self.stopped_by_fixed_n:.0f} % stopped by {self.fixed_n} ({self.runs} simulated runs, seed {self.seed})"
        )


def price_of_looking(
    effect: float,
    deviation: float,
    *,
    bounds: Range,
    null: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
    method: Method = "betting",
    runs: int = 400,
    seed: int = 0,
) -> PriceOfLooking:
    """Return the cost of a two-sided sequence when the true mean is null + effect, by seeded simulation.

    The values are simulated as beta within `bounds` with this mean and standard deviation (at the largest possible
    deviation: the two bounds alone); for differences give the bounds of a difference. The fixed n is that of a
    two-sided t test, exact for normal values; R: power.t.test(type="one.sample"). The asymptotic sequence is tuned to
    the fixed n. Raises ValueError for an effect of 0, and for a deviation that the bounds do not allow.

    >>> price = price_of_looking(0.1, 0.5, bounds=(-1, 1), runs=200)
    >>> price.fixed_n, price.median_n, price.late_n
    (199, 230, 629)
    """
    fixed = _fixed_n(effect, deviation, alpha, power)
    longest = max(LONGEST * fixed, SHORTEST)
    center, spread = _unit_moments(null + effect, deviation, bounds)
    start, width = unit_mean(null, bounds), bounds[1] - bounds[0]
    rng = np.random.default_rng(seed)
    stops = np.empty(_check_runs(runs))
    for run in range(runs):
        unit = _beta(rng, center, spread, longest)
        if method == "betting":
            stops[run] = _betting_stop(unit, start, alpha)
        elif method == "asymptotic":
            below = asymptotic_p_values((unit - start) * width, planned=fixed, alpha=alpha) < alpha
            stops[run] = int(below.argmax()) + 1 if below.any() else math.inf
        else:
            raise ValueError(f"method must be 'betting' or 'asymptotic', not {method!r}")
    return PriceOfLooking(
        fixed_n=fixed,
        median_n=_n_reached_by(stops, 0.5),
        n_for_power=_n_reached_by(stops, power),
        late_n=_n_reached_by(stops, 0.9),
        stopped_by_fixed_n=float((stops <= fixed).mean()),
        power=power,
        method=method,
        runs=runs,
        seed=seed,
        longest_n=longest,
    )


def _fixed_n(effect: float, deviation: float, alpha: float, power: float) -> int:
    check_share(alpha, "alpha")
    check_share(power, "power")
    if power <= alpha:
        raise ValueError(f"power must be above alpha, not {power!r} at alpha {alpha!r}")
    if not effect or not 0 < deviation < math.inf or not math.isfinite(effect):
        raise ValueError(
            f"expected a finite effect other than 0 and a positive deviation, not {effect!r} and {deviation!r}"
        )
    d = abs(effect) / deviation
    # Start at the sample size of a z test, which is never larger than that of the t test.
    n = max(math.ceil(((float(ndtri(power)) - float(ndtri(alpha / 2))) / d) ** 2), 2)
    while t_power(n - 1, d * math.sqrt(n), -float(stdtrit(n - 1, alpha / 2))) < power:
        n += 1
    return n


def _unit_moments(mean: float, deviation: float, bounds: Range) -> tuple[float, float]:
    """Return the mean scaled to [0, 1], and the variance as a share of the largest possible."""
    if not is_finite_range(bounds):
        raise ValueError(f"the price of looking needs finite bounds, not {bounds!r}")
    center = unit_mean(mean, bounds)
    largest = center * (1 - center) * (bounds[1] - bounds[0]) ** 2
    if deviation**2 > largest * (1 + 1e-9):
        allowed = f"a mean of {mean!r} within {bounds!r} allows a deviation of at most {math.sqrt(largest):.6g}"
        raise ValueError(f"{allowed}, not {deviation!r}")
    return center, min(deviation**2 / largest, 1.0)


def _beta(rng: np.random.Generator, center: float, spread: float, n: int) -> Array:
    # At the largest possible variance the beta distribution sits on the two bounds alone.
    if spread > 1 - 1e-9:
        return (rng.random(n) < center).astype(np.float64)
    strength = 1 / spread - 1
    return rng.beta(center * strength, (1 - center) * strength, n)


def _betting_stop(unit: Array, null: float, alpha: float) -> float:
    """Return the first n at which the wealth of either side excludes the null."""
    threshold = math.log(2 / alpha)
    greater = np.cumsum(log_gains(unit, stakes(unit, alpha / 2), null))
    less = np.cumsum(log_gains(1 - unit, stakes(1 - unit, alpha / 2), 1 - null))
    above = np.maximum(greater, less) > threshold
    return int(above.argmax()) + 1 if above.any() else math.inf


def _n_reached_by(stops: Array, share: float) -> int | None:
    stop = float(np.sort(stops)[math.ceil(share * stops.size) - 1])
    return None if math.isinf(stop) else int(stop)


def _check_runs(runs: int) -> int:
    if runs < 1:
        raise ValueError(f"expected at least 1 run, not {runs}")
    return runs
