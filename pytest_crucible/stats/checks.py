"""Checks of a suite: the false alarms of an A/A test, and the correlation of consecutive samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import Array, Codes, Labels, Range, check_share, cluster_codes, finite, is_constant
from pytest_crucible.stats.comparing import apply_method, choose_row
from pytest_crucible.stats.distributions import normal_cdf
from pytest_crucible.stats.estimating import resolve_kind
from pytest_crucible.stats.inputs import OPEN, Kind, declare_pairs
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import with_interval
from pytest_crucible.stats.proportions.one import wilson_interval
from pytest_crucible.stats.resampling.draws import MonteCarlo, Seed, generator

# With the dealt arrangement 1,000, of which alpha is a whole number.
FEW_DRAWS = 999


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseAlarms:
    """False alarms of a comparison: replicates, in which nothing differs, with a significant difference."""

    alarms: int
    replicates: int
    unanswered: int
    """Replicates in which the method had too little data; they count as no alarm."""
    interval: Interval
    """99 % interval of the rate, over replicates."""
    alpha: float
    samples: int
    clusters: int | None
    method: str
    seed: int

    def __str__(self) -> str:
        n = f"{self.samples:,} samples" + ("" if self.clusters is None else f" in {self.clusters:,} clusters")
        rate = with_interval(self.rate, self.interval)
        return f"false alarms {rate} at alpha {self.alpha:g}, {n}, {self.replicates:,} replicates ({self.method})"

    @property
    def rate(self) -> float:
        return self.alarms / self.replicates

    @property
    def holds(self) -> bool:
        """False when the rate is above 1.1 alpha by more than chance, or when no replicate was answered."""
        return self.unanswered < self.replicates and self.interval.low <= 1.1 * self.alpha


def false_alarm_rate(
    values: npt.ArrayLike,
    *,
    kind: Kind | str = "auto",
    bounds: Range | None = None,
    clusters: Labels | None = None,
    alpha: float = 0.05,
    replicates: int = 2000,
    seed: int = 0,
) -> FalseAlarms:
    """Deal the repeats of each sample to two arms at random, compare the arms, and count p <= alpha.

    `values` is samples x repeats, at least two. Two arms that were measured once each can serve as two repeats; their
    scores are then swapped at random within each sample. Before each deal the samples are resampled with replacement, so
    that the rate is that of suites like this one, not of its one composition. Samples of one cluster are dealt together,
    because they share noise, and are not resampled: a large cluster drawn twice would not be a new cluster. With an odd
    number of repeats one of each sample is left out.
    Raises ValueError for fewer than two samples or repeats and for NaN, with their count.

    >>> rng = np.random.default_rng(1)
    >>> false_alarm_rate(rng.random((40, 2)), replicates=100).holds
    True
    """
    matrix = _repeats(values)
    check_share(alpha, "alpha")
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, not {replicates}")
    if not isinstance(seed, int | np.integer):
        raise ValueError(f"seed must be a whole number, not {seed!r}")
    resolved_kind = resolve_kind(kind, bounds, matrix.ravel())
    groups = None if clusters is None else cluster_codes(clusters, matrix.shape[0])[0]
    p_values = []
    for number, (first, second, labels) in enumerate(_deals(matrix, groups, replicates, seed)):
        # An alarm is p <= alpha, which fewer arrangements show as exactly. Each deal draws its own: with 999 that all share, the
        # rate at alpha = .01 would be between .002 and .02, by the chance of one draw.
        monte_carlo = MonteCarlo(seed=int(seed) + number, draws=FEW_DRAWS, finest=1 / (FEW_DRAWS + 1))
        arms = declare_pairs(
            first, second, kind=resolved_kind, bounds=OPEN if bounds is None else bounds, clusters=labels
        )
        arms = replace(arms, monte_carlo=monte_carlo)
        # The row is chosen for each deal: averaged repeats turn 0/1 values into scores in some deals only.
        chosen = choose_row("compare", arms, "difference")
        answer = apply_method(chosen, arms, "two-sided", alpha)[0]
        # Where so few units have no p-value that is small enough for an alarm, there is none.
        powerless = answer.alikeness is not None and answer.alikeness.smallest > alpha
        p_values.append(None if powerless else answer.p_value)
    alarms = sum(p is not None and p <= alpha for p in p_values)
    return FalseAlarms(
        alarms=alarms,
        replicates=replicates,
        unanswered=sum(p is None for p in p_values),
        interval=wilson_interval(alarms, replicates, level=0.99),
        alpha=alpha,
        samples=matrix.shape[0],
        clusters=arms.groups,
        method=chosen.method,
        seed=seed,
    )


def _repeats(values: npt.ArrayLike) -> Array:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 2:
        raise ValueError(f"values must be at least 2 samples x 2 repeats, not the shape {matrix.shape}")
    finite(matrix.ravel())
    return matrix


def _deals(
    matrix: Array, groups: Codes | None, replicates: int, seed: int
) -> Iterator[tuple[Array, Array, Codes | None]]:
    """Yield two arms and the cluster of each of their pairs."""
    rng, half = np.random.default_rng(seed), matrix.shape[1] // 2
    units = np.arange(matrix.shape[0]) if groups is None else groups
    # One permutation of the repeats for each unit: the samples of a cluster share theirs.
    unshuffled = np.tile(np.arange(matrix.shape[1]), (int(units.max()) + 1, 1))
    for _ in range(replicates):
        # Resampled before dealing, so that the rate is not that of this one set of samples.
        drawn = matrix if groups is not None else matrix[rng.integers(len(matrix), size=len(matrix))]
        dealt = np.take_along_axis(drawn, rng.permuted(unshuffled, axis=1)[units], axis=1)
        yield dealt[:, :half].mean(axis=1), dealt[:, half : 2 * half].mean(axis=1), groups


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
    p_value = normal_cdf(-(correlation + 1 / n) * math.sqrt(n))
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
