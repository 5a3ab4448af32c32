"""Success rates of many tasks that lend each other strength: beta-binomial across tasks. For reading, never for gates.

Task i has k_i successes of n_i at a rate of its own, Beta(mu phi, (1 - mu) phi); mu is uniform, and so is the
shrinkage n0 / (n0 + phi), with n0 the mean number of trials (Christiansen & Morris 1997), which keeps the posterior
proper however alike the tasks are. Both are integrated out on a grid of log odds: nothing is drawn, there is no seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaln, expit, log_expit

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted, number, with_interval
from pytest_crucible.records import Interval
from pytest_crucible.stats.observations import Array, Codes, check_counts, check_share

COARSE, FINE = 41, 61
"""Grid points in each direction: to find where the posterior lies, and to integrate over it."""
SPAN = 12.0
"""Log odds first looked at, either way."""
NEGLIGIBLE = 25.0
"""exp(-25) of the peak is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRates:
    """Rates shrunk towards their common mean, the more so the fewer trials a task has and the more alike they are."""

    mean: float
    """Posterior mean of the mean rate of such tasks."""
    mean_interval: Interval
    spread: float
    """Posterior mean of the standard deviation of the tasks' true rates."""
    rates: tuple[float, ...]
    intervals: tuple[Interval, ...]
    """Equal-tailed, one for each task."""

    def __str__(self) -> str:
        return (
            f"{with_interval(self.mean, self.mean_interval)}, spread {number(self.spread)}, tasks={len(self.rates):,}"
        )


def task_rates(successes: Sequence[int], trials: Sequence[int], *, level: float = 0.95) -> TaskRates:
    """Posterior rates of tasks from their successes and trials. Raises NotEnoughData below two tasks with trials.

    >>> result = task_rates([9, 5, 10, 7], [10, 10, 10, 10])
    >>> [round(rate, 2) for rate in result.rates]
    [0.83, 0.62, 0.89, 0.73]
    """
    check_share(level, "level")
    if len(successes) != len(trials):
        raise ValueError(f"every task has successes and trials: {len(successes)} and {len(trials)} were given")
    for hits, asked in zip(successes, trials, strict=True):
        check_counts(asked, successes=hits)
    tried = sum(asked > 0 for asked in trials)
    if tried < 2:
        raise NotEnoughData(f"{counted(tried, 'task')} with trials: what tasks share needs at least 2")
    # Tasks with the same counts are one row, however many they are.
    table = np.column_stack([successes, trials]).astype(np.float64)
    rows, which, alike = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    k, n = rows[:, :1], rows[:, 1:]
    mu, phi, weights = _grid(k, n, alike)
    means = ((k + mu * phi) / (n + phi) @ weights)[which]
    ends = _ends(k + mu * phi, n - k + (1 - mu) * phi, weights, level)[:, which]
    return TaskRates(
        mean=float(weights @ mu),
        mean_interval=_mean_interval(mu, weights, level),
        spread=float(weights @ np.sqrt(mu * (1 - mu) / (1 + phi))),
        rates=tuple(means.tolist()),
        intervals=tuple(
            Interval(low=low, high=high, level=level, method="beta-binomial posterior, equal-tailed")
            for low, high in ends.T.tolist()
        ),
    )


def _grid(k: Array, n: Array, alike: Codes) -> tuple[Array, Array, Array]:
    """mu, phi and posterior weights of the grid points that matter."""
    hits, misses = float(alike @ k.ravel()), float(alike @ (n - k).ravel())
    centre, typical = float(np.log((hits + 0.5) / (misses + 0.5))), (hits + misses) / float(alike.sum())
    odds, shrinkage = np.linspace(centre - SPAN, centre + SPAN, COARSE), np.linspace(-SPAN, SPAN, COARSE)
    for _ in range(2):
        logs = _log_posterior(odds, shrinkage, typical, k, n, alike)
        matters = logs > logs.max() - NEGLIGIBLE
        odds, shrinkage = _narrowed(odds, matters.any(axis=1)), _narrowed(shrinkage, matters.any(axis=0))
    logs = _log_posterior(odds, shrinkage, typical, k, n, alike)
    keep = logs > logs.max() - NEGLIGIBLE
    weights = np.exp(logs[keep] - logs.max())
    mu, phi = np.broadcast_arrays(expit(odds)[:, None], (typical * np.exp(-shrinkage))[None, :])
    return mu[keep], phi[keep], weights / weights.sum()


def _log_posterior(odds: Array, shrinkage: Array, typical: float, k: Array, n: Array, alike: Codes) -> Array:
    """Of the log odds of mu (rows) and of the shrinkage (columns), with the Jacobians of both."""
    phi = typical * np.exp(-shrinkage)
    a, b = expit(odds)[:, None] * phi, expit(-odds)[:, None] * phi
    logs = (log_expit(odds) + log_expit(-odds))[:, None] + log_expit(shrinkage) + log_expit(-shrinkage)
    for hits, trials, tasks in zip(k.ravel(), n.ravel(), alike, strict=True):
        logs = logs + tasks * (betaln(a + hits, b + trials - hits) - betaln(a, b))
    return np.asarray(logs, dtype=np.float64)


def _narrowed(values: Array, matters: npt.NDArray[np.bool_]) -> Array:
    """A fine grid over the part that matters, and one step beyond on either side."""
    inside, step = values[matters], values[1] - values[0]
    return np.linspace(inside[0] - step, inside[-1] + step, FINE)


def _ends(a: Array, b: Array, weights: Array, level: float) -> Array:
    """Both quantiles (rows) of each task's mixture of betas (columns): bisection of all at once."""
    tails = np.array([[(1 - level) / 2], [(1 + level) / 2]])
    low, high = np.zeros((2, len(a))), np.ones((2, len(a)))
    for _ in range(34):
        middle = (low + high) / 2
        below = np.stack([betainc(a, b, row[:, None]) @ weights for row in middle]) < tails
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


def _mean_interval(mu: Array, weights: Array, level: float) -> Interval:
    order = np.argsort(mu, kind="stable")
    values, first = np.unique(mu[order], return_index=True)
    mass = np.add.reduceat(weights[order], first)
    ends = np.interp([(1 - level) / 2, (1 + level) / 2], np.cumsum(mass) - mass / 2, values)
    return Interval(
        low=float(ends[0]), high=float(ends[1]), level=level, method="beta-binomial posterior, equal-tailed"
    )
