"""`pass^k` and `pass@k` as targets: the interval is that of `stats.pass_hat_k` and `stats.pass_at_k`."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_crucible.measures import draws
from pytest_crucible.measures.row import Prepared
from pytest_crucible.stats import pass_at_k, pass_hat_k


@pytest.mark.parametrize("labels", [None, list("aabbccddee")])
@pytest.mark.parametrize("successes", [[1, 3, 3, 5, 7, 2, 4, 6, 4, 4], [8, 8, 0, 8, 8, 8, 0, 8, 8, 8]])
@pytest.mark.parametrize("function", [pass_at_k, pass_hat_k])
def test_the_interval_is_that_of_the_target_with_the_same_name(function, successes, labels):
    """Over questions, or over their clusters."""
    chances = function(8, successes, 2, clusters=labels)
    prepared = Prepared(
        values=np.array(chances.per_sample),
        clusters=None if labels is None else np.array(labels),
        kind="binary",
        bounds=(0.0, 1.0),
    )
    target = draws.estimate(prepared, 0.95)

    assert (chances.mean, chances.interval) == (target.value, target.interval)
    assert chances.interval is not None
