"""A percentile of grouped replies is bounded where both bounds of the grouped share prove it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_crucible.stats import mean_bound
from pytest_crucible.stats.ranks.quantiles import clustered_quantile_bound, clustered_shares

ALPHA = 0.05


@pytest.mark.parametrize("q", [0.5, 0.9])
@pytest.mark.parametrize("seed", range(8))
def test_the_share_beyond_each_bound_is_proven_by_the_bound_of_a_grouped_rate(seed, q):
    """Uneven groups, of which the small ones are slow as a whole: there each of the two bounds is sometimes the wider one."""
    rng, groups = np.random.default_rng(seed), 100
    sizes = np.minimum(60, rng.pareto(1.1, groups) + 1).astype(int)
    slow = rng.random(groups) < np.where(sizes >= 20, 0.1, 0.5)
    values = np.repeat(np.where(slow, 3.0, 1.0) + rng.random(groups), sizes)
    labels = np.repeat(np.arange(groups), sizes)
    shares = clustered_shares(values, labels)
    arm = {"kind": "binary", "clusters": labels, "alpha": ALPHA}

    low = clustered_quantile_bound(shares, q, alpha=ALPHA, side="lower")
    high = clustered_quantile_bound(shares, q, alpha=ALPHA, side="upper")

    if math.isfinite(low):
        assert mean_bound((values < low).astype(float), **arm, side="upper").value <= q + 1e-9
    if math.isfinite(high):
        assert mean_bound((values <= high).astype(float), **arm, side="lower").value >= q - 1e-9
