"""The sums of a step's batches, and the row of the log that they become."""

from __future__ import annotations

import math

from pytest_crucible.features.training.log import OpenStep, TrainingLog
from pytest_crucible.local_model.losses import AdamParams


def written(*batches: tuple[str, float, float, int], norm: float | None = None) -> TrainingLog:
    step, log = OpenStep(), TrainingLog()
    for batch in batches:
        step.begin()
        step.add(*batch)
    step.write(log, norm, AdamParams(learning_rate=0.01))
    return log


def test_the_loss_of_a_step_is_the_mean_over_the_counted_tokens_of_its_batches():
    log = written(("a", 6.0, 2.0, 10), ("b", 3.0, 1.0, 7))

    assert (log.losses, log.tokens, log.passes) == ([3.0], [17], [[("a", 6.0), ("b", 3.0)]])
    assert log.learning_rates == [0.01]


def test_a_loss_without_counted_tokens_is_a_sum():
    assert written(("a", 6.0, 0.0, 10)).losses == [6.0]


def test_a_norm_that_is_not_a_number_counts_as_not_reported():
    assert written(("a", 1.0, 1.0, 1), norm=math.nan).gradient_norms == [None]
    assert written(("a", 1.0, 1.0, 1), norm=2.0).gradient_norms == [2.0]


def test_the_clock_of_a_step_starts_with_its_first_batch():
    step = OpenStep(began=5.0)
    step.begin()

    assert step.began == 5.0
    assert written().seconds == [0.0]
