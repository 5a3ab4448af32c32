"""Success rates of many tasks that borrow strength from each other: beta-binomial across tasks.

For interpretation, never for gates. Task i has k_i successes of n_i at its own rate, Beta(mu phi, (1 - mu) phi). The
prior of mu is uniform, and so is that of the shrinkage n0 / (n0 + phi), with n0 the mean number of trials (Christiansen
& Morris 1997), which keeps the posterior proper even when all tasks are alike. Both are integrated out on a grid of log
odds: nothing is drawn, and no seed is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaln, expit, log_expit

from pytest_crucible.stats.arrays import Array, Codes, check_counts, check_share
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import number, quantity, with_interval

# Grid points in each direction: to locate the posterior, and to integrate over it.
COARSE, FINE = 41, 61
# Log odds searched first, in either direction.
SPAN = 12.0
# Grid points below exp(-25) of the peak are left out.
NEGLIGIBLE = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRates:
    """Task rates shrunk towards their common mean, more so for few trials and for similar tasks."""

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
    """Return the posterior rates of tasks from their successes and trials.

    Raises NotEnoughData below two tasks with trials.

    >>> result = task_rates([9, 5, 10, 7], [10, 10, 10, 10])
    >>> [round(rate, 2) for rate in result.rates]
    [0.83, 0.62, 0.89, 0.73]
    """
    check_share(level, "level")
    if len(successes) != len(trials):
        raise ValueError(
            f"every task needs successes and trials, not {len(successes)} successes and {len(trials)} trials"
        )
    for hits, count in zip(successes, trials, strict=True):
        check_counts(count, successes=hits)
    tasks_with_trials = sum(count > 0 for count in trials)
    if tasks_with_trials < 2:
        raise NotEnoughData(f"{quantity(tasks_with_trials, 'task')} with trials: the common rate needs at least 2")
    # Tasks with the same counts are one row, however many they are.
    table = np.column_stack([successes, trials]).astype(np.float64)
    rows, row_of_task, multiplicity = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    k, n = rows[:, :1], rows[:, 1:]
    mu, phi, weights = _grid(k, n, multiplicity)
    means = ((k + mu * phi) / (n + phi) @ weights)[row_of_task]
    ends = _ends(k + mu * phi, n - k + (1 - mu) * phi, weights, level)[:, row_of_task]
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


def _grid(k: Array, n: Array, multiplicity: Codes) -> tuple[Array, Array, Array]:
    """Return mu, phi and posterior weights of the grid points that matter."""
    hits, misses = float(multiplicity @ k.ravel()), float(multiplicity @ (n - k).ravel())
    centre, mean_trials = float(np.log((hits + 0.5) / (misses + 0.5))), (hits + misses) / float(multiplicity.sum())
    odds, shrinkage = np.linspace(centre - SPAN, centre + SPAN, COARSE), np.linspace(-SPAN, SPAN, COARSE)
    # Twice: the first grid locates the peak coarsely, the second cuts out its surroundings.
    for _ in range(2):
        logs = _log_posterior(odds, shrinkage, mean_trials, k, n, multiplicity)
        matters = logs > logs.max() - NEGLIGIBLE
        odds, shrinkage = _refine(odds, matters.any(axis=1)), _refine(shrinkage, matters.any(axis=0))
    logs = _log_posterior(odds, shrinkage, mean_trials, k, n, multiplicity)
    keep = logs > logs.max() - NEGLIGIBLE
    weights = np.exp(logs[keep] - logs.max())
    mu, phi = np.broadcast_arrays(expit(odds)[:, None], (mean_trials * np.exp(-shrinkage))[None, :])
    return mu[keep], phi[keep], weights / weights.sum()


def _log_posterior(odds: Array, shrinkage: Array, mean_trials: float, k: Array, n: Array, multiplicity: Codes) -> Array:
    """Return the log posterior over log odds of mu (rows) and of the shrinkage (columns), with both Jacobians."""
    phi = mean_trials * np.exp(-shrinkage)
    a, b = expit(odds)[:, None] * phi, expit(-odds)[:, None] * phi
    logs = (log_expit(odds) + log_expit(-odds))[:, None] + log_expit(shrinkage) + log_expit(-shrinkage)
    for hits, trials, tasks in zip(k.ravel(), n.ravel(), multiplicity, strict=True):
        logs = logs + tasks * (betaln(a + hits, b + trials - hits) - betaln(a, b))
    return np.asarray(logs, dtype=np.float64)


def _refine(values: Array, matters: npt.NDArray[np.bool_]) -> Array:
    """Return a fine grid over the values that matter, extended by one coarse step on either side."""
    inside, step = values[matters], values[1] - values[0]
    return np.linspace(inside[0] - step, inside[-1] + step, FINE)


def _ends(a: Array, b: Array, weights: Array, level: float) -> Array:
    """Return both quantiles (rows) of each task's mixture of betas (columns), by bisection of all at once."""
    tails = np.array([[(1 - level) / 2], [(1 + level) / 2]])
    low, high = np.zeros((2, len(a))), np.ones((2, len(a)))
    # 34 halvings of [0, 1] leave an error of 6e-11.
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
