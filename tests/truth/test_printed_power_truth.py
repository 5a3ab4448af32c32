"""A difference that a run says it can detect with 80 % power is detected in 75 to 85 % of runs.

`python -m benchmarks.calibration` prints the same runs.
"""

from __future__ import annotations

import pytest
from printed_power import (
    EVALUATIONS,
    FALLING,
    PLANNED,
    power_at_the_planned_size,
    power_at_the_printed_falls,
    power_at_the_printed_value,
)
from run_sizes import choose_runs

pytestmark = pytest.mark.slow

RUNS = choose_runs(600)
THREE_ERRORS = 3 * (0.8 * 0.2 / RUNS) ** 0.5


@pytest.mark.parametrize("name", list(EVALUATIONS))
def test_the_printed_difference_has_the_printed_power(name):
    printed, power = power_at_the_printed_value(name, RUNS, seed=1)

    assert printed == 1
    assert 0.75 - THREE_ERRORS <= power <= 0.85 + THREE_ERRORS


@pytest.mark.parametrize("name", list(PLANNED))
def test_the_planned_size_of_a_bounded_score_has_the_planned_power(name):
    power = power_at_the_planned_size(name, RUNS, seed=2)

    assert 0.75 - THREE_ERRORS <= power <= 0.85 + THREE_ERRORS


@pytest.mark.parametrize("name", list(FALLING))
def test_the_printed_loss_by_falls_has_the_printed_power(name):
    power = power_at_the_printed_falls(name, RUNS, seed=3)

    assert 0.75 - THREE_ERRORS <= power <= 0.85 + THREE_ERRORS
