"""The bootstrap is that of scipy, with its seed, and without an interval where BCa has none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from pytest_crucible.stats.classical import bootstrap
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.resampling.draws import generator

NORMAL = np.random.default_rng(11).normal(2.0, 1.0, 80)


@pytest.mark.parametrize("method", ["bca", "percentile", "basic"])
def test_the_bootstrap_of_a_deviation_is_that_of_scipy(method):
    result = bootstrap(NORMAL, np.std, method=method, resamples=500, rng=3)
    reference = scipy.stats.bootstrap(
        (NORMAL,), np.std, n_resamples=500, method=method, random_state=np.random.default_rng(3)
    )

    assert result.estimate == np.std(NORMAL)
    assert (result.interval.low, result.interval.high) == tuple(reference.confidence_interval)
    assert (result.se, result.seed, result.n) == (reference.standard_error, 3, 80)
    assert f"n=80 (bootstrap {method}, 500 resamples)" in str(result)


def test_bca_needs_a_jackknife_that_varies():
    """The median of mostly equal values does not move when one is left out."""
    values = [1.0] * 9 + [2.0, 3.0, 4.0]

    assert bootstrap(values, np.median).interval is None
    assert bootstrap(values, np.median, method="percentile").interval is not None


def test_a_bootstrap_needs_two_finite_values():
    with pytest.raises(NotEnoughData, match=r"^1 value"):
        bootstrap([1.0], np.mean)
    with pytest.raises(ValueError, match="1 of 3 values are NaN"):
        bootstrap([1.0, 2.0, np.nan], np.mean)


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(1)

    assert generator(rng) == (rng, None)
    assert bootstrap(NORMAL, np.mean, resamples=100, rng=rng).seed is None
