"""Coverage of the interval of the error correlation, by seeded simulation.

Every limit is a worst cell that is named beside it, less four standard errors of the simulation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from simulation import at_least

from pytest_crucible.stats.ensembles import error_correlation

pytestmark = pytest.mark.slow


def tables(rng, n, runs, error, phi):
    """Both right, first wrong, second wrong, both wrong: so often among n, in each run."""
    both = error * error + phi * error * (1 - error)
    return rng.multinomial(n, [1 - 2 * error + both, error - both, error - both, both], size=runs)


def covers(answer, truth):
    return answer.interval is not None and answer.interval.low <= truth <= answer.interval.high


@pytest.mark.parametrize("phi", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("error", [0.05, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("n", [30, 100, 1000])
def test_the_error_correlation_is_covered_wherever_it_is_defined(n, error, phi):
    """Worst cells: 5 % errors, independent ones at n=1000 .92, those of phi .6 at n=30 .94."""
    rng, cells = np.random.default_rng([1, n]), np.array([[1, 1], [0, 1], [1, 0], [0, 0]])
    answers = [error_correlation(*np.repeat(cells, row, axis=0).T) for row in tables(rng, n, 1000, error, phi)]
    case = [answer for answer in answers if answer.value is not None]

    assert at_least(sum(covers(entry, phi) for entry in case), len(case), 0.92)


@pytest.mark.parametrize(("clusters", "size", "limit"), [(10, 5, 0.94), (20, 20, 0.89), (50, 4, 0.92)])
@pytest.mark.parametrize("error", [0.1, 0.3])
def test_the_error_correlation_of_clustered_samples_is_covered(clusters, size, limit, error):
    """Hard passages and hard samples make both members err. Worst cell: 10 % errors in 20 clusters of 20, .89."""
    rng, runs = np.random.default_rng([2, clusters]), 600
    labels = np.repeat(np.arange(clusters), size)

    def right(count):
        passage, sample = rng.standard_normal((2, count, clusters, size, 1))
        chance = rng.standard_normal((count, clusters, size, 2))
        latent = math.sqrt(0.4) * passage[:, :, :1] + math.sqrt(0.3) * sample + math.sqrt(0.3) * chance
        return (latent > ndtri(error)).astype(float).reshape(count, clusters * size, 2)

    truth = float(np.corrcoef(right(400_000 // (clusters * size)).reshape(-1, 2).T)[0, 1])
    answers = [error_correlation(*entry.T, clusters=labels) for entry in right(runs)]
    case = [answer for answer in answers if answer.value is not None]

    assert at_least(sum(covers(entry, truth) for entry in case), len(case), limit)


def test_without_the_added_halves_rare_errors_would_hardly_be_covered():
    """Independent errors on 5 of 100 samples: the delta method alone covers 29 %."""
    rng, runs, covered = np.random.default_rng(3), 1000, 0
    for _, first, second, wrong in tables(rng, 100, runs, 0.05, 0.0):
        p, q = (first + wrong) / 100, (second + wrong) / 100
        if p * q == 0:
            continue
        u, v = p * (1 - p), q * (1 - q)
        phi = (wrong / 100 - p * q) / math.sqrt(u * v)
        variance = 1 - phi**2 + phi * (1 + phi**2 / 2) * (1 - 2 * p) * (1 - 2 * q) / math.sqrt(u * v)
        variance -= 0.75 * phi**2 * ((1 - 2 * p) ** 2 / u + (1 - 2 * q) ** 2 / v)
        half = 1.984 * math.sqrt(max(variance, 0.0) / 100) / max(1 - phi**2, 1e-9)
        covered += abs(math.atanh(min(phi, 1 - 1e-12))) <= half

    assert 0.25 < covered / runs < 0.33
