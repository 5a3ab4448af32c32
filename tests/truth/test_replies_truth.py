"""Rates, percentiles and counts of repeats: their bounds and p-values err in at most alpha of runs."""

from __future__ import annotations

import numpy as np
import pytest
from reply_evals import ALPHA, REPLY_EVALS, count_errors
from run_sizes import choose_runs
from simulation import at_most

pytestmark = pytest.mark.slow

RUNS = choose_runs(400)


@pytest.mark.parametrize("samples", [30, 150])
@pytest.mark.parametrize("case", REPLY_EVALS, ids=lambda case: case.name)
def test_replies_to_one_sample_are_one_cluster(case, samples):
    errors = count_errors(case, samples, RUNS, np.random.default_rng([samples, 7]))

    for count in (errors.low, errors.high, errors.alarms, errors.margins):
        assert at_most(count, RUNS, ALPHA)
