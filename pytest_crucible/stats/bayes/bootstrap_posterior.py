"""The Bayesian bootstrap of a mean (Rubin 1981): each observed value gets a random Dirichlet(1, ..., 1) weight.

It suits scores of any shape and has only one assumption: values that were not observed do not exist. So it is
overconfident with few samples. For interpretation, never for gates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, check_share, difference, finite, is_constant
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import number, quantity, with_interval, with_note
from pytest_crucible.stats.results import Status

# Weights drawn at once: 8 MB.
CELLS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapMoments:
    """Exact mean and variance of the posterior of a mean."""

    mean: float
    variance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapPosterior:
    """The posterior of a mean from random weights. Fields that need draws are None if all values are equal."""

    mean: float
    """Exact, as is the variance of `bayesian_bootstrap_moments`."""
    variance: float
    interval: Interval | None
    """Equal-tailed."""
    probability_positive: float | None
    probability_equivalent: float | None
    """Probability that the mean is within the margin of 0; None without a margin."""
    losses: tuple[float, float] | None
    """E max(-mean, 0), the expected loss of choosing the candidate, and E max(mean, 0), that of the baseline."""
    draws: int
    seed: int | None
    """None when the caller passed a generator."""
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        equivalent = self.probability_equivalent
        equivalence = "" if equivalent is None else f", equivalent with {number(equivalent)}"
        summary = (
            f"{with_interval(self.mean, self.interval, sign=True)}, positive with {number(self.probability_positive)}"
        )
        return with_note(f"{summary}{equivalence}, draws={self.draws:,}", self.note)


def bayesian_bootstrap_moments(values: npt.ArrayLike) -> BootstrapMoments:
    """Return the posterior mean and variance of a mean.

    The mean, and the sum of squares about it over n (n + 1). Rubin 1981. Raises NotEnoughData below two values.

    >>> moments = bayesian_bootstrap_moments([0.0, 1.0])
    >>> moments.mean, round(moments.variance, 6)
    (0.5, 0.083333)
    """
    return _moments(_check_values(values))


def bayesian_bootstrap(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    margin: float | None = None,
    level: float = 0.95,
    draws: int = 4000,
    rng: int | np.random.Generator = 0,
) -> BootstrapPosterior:
    """Return the posterior of a mean, or of a mean difference from a paired `baseline`, by seeded random weights.

    Equal values share one gamma weight, so that scores on a few levels cost little. With 4000 draws a probability has a
    standard error of at most 0.008. Raises NotEnoughData below two values.

    >>> posterior = bayesian_bootstrap([0.9, 0.7, 0.8, 0.6], [0.5, 0.6, 0.8, 0.4], rng=1)
    >>> round(posterior.mean, 3), posterior.probability_positive, posterior.seed
    (0.175, 1.0, 1)
    """
    array = _check_values(candidate if baseline is None else difference(candidate, baseline))
    check_share(level, "level")
    if draws < 1 or (margin is not None and not margin >= 0):
        raise ValueError(f"draws must be at least 1 and margin at least 0, not {draws} and {margin!r}")
    moments, seed = _moments(array), rng if isinstance(rng, int) else None
    if is_constant(array):
        return BootstrapPosterior(
            mean=moments.mean, variance=0.0, interval=None, probability_positive=None, probability_equivalent=None,
            losses=None, draws=0, seed=seed, status="degenerate",
            note=f"all {array.size} values are equal: weights say nothing about values that were not observed",
        )  # fmt: skip
    means = _means(array, draws, np.random.default_rng(rng))
    low, high = (float(end) for end in np.quantile(means, [(1 - level) / 2, (1 + level) / 2]))
    return BootstrapPosterior(
        mean=moments.mean,
        variance=moments.variance,
        interval=Interval(low=low, high=high, level=level, method="bayesian bootstrap"),
        probability_positive=float(np.mean(means > 0)),
        probability_equivalent=None if margin is None else float(np.mean(np.abs(means) <= margin)),
        losses=(float(np.maximum(-means, 0).mean()), float(np.maximum(means, 0).mean())),
        draws=draws,
        seed=seed,
    )


def _means(array: Array, draws: int, generator: np.random.Generator) -> Array:
    """Return weighted means under random Dirichlet weights.

    Dirichlet weights are gammas over their sum, and the gammas of equal values add up to one gamma.
    """
    levels, counts = np.unique(array, return_counts=True)
    rows = max(1, CELLS // levels.size)
    parts = []
    for start in range(0, draws, rows):
        shape = (min(rows, draws - start), levels.size)
        distinct = levels.size == array.size
        # A gamma of shape 1 is an exponential, which is drawn faster.
        weights = generator.standard_exponential(shape) if distinct else generator.standard_gamma(counts, shape)
        parts.append(weights @ levels / weights.sum(axis=1))
    return np.concatenate(parts)


def _moments(array: Array) -> BootstrapMoments:
    n, mean = array.size, float(array.mean())
    squares = 0.0 if is_constant(array) else float(np.square(array - mean).sum())
    return BootstrapMoments(mean=mean, variance=squares / (n * (n + 1)))


def _check_values(values: npt.ArrayLike) -> Array:
    array = finite(values)
    if array.size < 2:
        raise NotEnoughData(f"{quantity(array.size, 'value')}: a mean's uncertainty needs at least 2")
    return array
