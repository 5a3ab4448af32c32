"""The log of a training: the sums over the batches of a step, and the numbers that targets name."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.features.training.known_numbers import RANGES
from pytest_crucible.features.training.log import (
    OpenStep,
    TrainingLog,
    _running_medians,
    convergence_steps,
    summarise_training,
)
from pytest_crucible.local_model.losses import AdamParams

LOSSES = st.lists(st.integers(0, 1000).map(float), min_size=1, max_size=60)


def fall(steps: int, pace: float) -> list[float]:
    """An exponential fall from 4 to 1."""
    return [1 + 3 * math.exp(-pace * step) for step in range(steps)]


@pytest.mark.parametrize(
    ("losses", "final", "reduction"),
    [([2.0], 2.0, 0.0), ([2.0, 1.0], 1.0, 0.5), ([4.0, *[3.0] * 17, 2.0, 0.0], 1.0, 0.75), ([-1.0, -2.0], -2.0, None)],
)
def test_losses_at_both_ends(losses, final, reduction):
    result = summarise_training(losses, [1.0] * len(losses))

    assert (result.final_loss, result.loss_reduction) == (final, reduction)
    assert (result.first_loss, result.training_steps) == (losses[0], len(losses))


def test_gradients():
    result = summarise_training([1.0, 1.0], [3.0, 0.5])

    assert (result.largest_gradient_norm, result.gradient_norms_finite) == (3.0, True)
    assert not summarise_training([1.0], [1.0], finite=False).gradient_norms_finite


def test_an_unreported_norm_is_not_zero():
    """Some services tell none, and some may tell some: the largest of those is not the largest."""
    for norms in ([None, None], [3.0, None]):
        result = summarise_training([2.0, 1.0], norms)

        assert (result.largest_gradient_norm, result.gradient_norms_finite) == (None, None)
    assert summarise_training([1.0], [None], finite=False).gradient_norms_finite is False


def test_targets_name_them_as_they_are_stored():
    assert set(RANGES) == {
        "training_steps", "first_loss", "final_loss", "loss_reduction", "convergence_steps", "largest_gradient_norm",
        "gradient_norms_finite",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "step"),
    [
        ([8.0, 4.0, 2.0, 1.0, 1.0, 1.0], 4),
        ([8.0, 1.0, 1.0], 2),
        ([8.0, 1.3, 1.0], 2),  # 0.3 of a reduction of 7
        ([8.0, 1.4, 1.0, 1.0], 3),  # 0.4 is more than 5 %
        ([8.0, *[1.0] * 9, 8.0, 1.0, 1.0], 12),  # it did not stay
        ([8.0, 0.0, *[1.0] * 5], 3),  # below its end is not near it either
        ([0.0, -4.0, -4.0], 2),  # a policy's loss
        ([*[9.0] * 10, *[1.0] * 30], 11),
        ([8.0, *[1.0] * 20, 8.0, *[1.0] * 18], 2),  # of 40 steps, medians of 5: one that stands out does not count
    ],
)
def test_a_loss_converges_at_the_step_from_which_it_stays_near_its_end(losses, step):
    assert convergence_steps(losses) == step


@pytest.mark.parametrize(
    "losses",
    [
        [2.0],
        [2.0, 2.0, 2.0],
        [1.0, 1.0, 2.0],
        [8.0, 4.0, 1.0],
        [*[5.0] * 95, *[0.0] * 5],
        fall(60, 0.02),
    ],
    ids=["one step", "level", "rising", "at the last step", "late", "too slow"],
)
def test_a_loss_that_is_not_reduced_or_falls_to_the_end_has_not_converged(losses):
    assert convergence_steps(losses) is None


@pytest.mark.parametrize("steps", [2, 3, 9, 10, 19, 20, 21, 57, 100, 1000])
def test_a_loss_that_falls_along_a_line_has_not_converged(steps):
    assert convergence_steps([float(left) for left in range(steps, 0, -1)]) is None


@pytest.mark.parametrize("pace", [0.5, 0.1, 0.05, 0.02])
@pytest.mark.parametrize("steps", [400, 1000])
def test_an_exponential_fall_converges_when_a_twentieth_is_left(pace, steps):
    # exp(-pace * k) = 1 / 20 after k steps, but for the little that is left at the end; however long training goes on.
    assert convergence_steps(fall(steps, pace)) == pytest.approx(2 + math.log(20) / pace, abs=1 + 0.06 / pace)


@given(LOSSES, st.sampled_from([0.25, 2.0, 64.0]), st.integers(-100, 100))
def test_the_unit_and_the_origin_of_a_loss_do_not_matter(losses, unit, origin):
    if len(losses) < 20:  # whole numbers and powers of two: without a mean nothing is rounded
        assert convergence_steps([unit * (item + origin) for item in losses]) == convergence_steps(losses)


@given(LOSSES)
def test_convergence_is_never_at_one_of_the_last_steps(losses):
    step = convergence_steps(losses)

    if step is not None:
        assert 1 <= step <= len(losses) - max(2, len(losses) // 5) + 1
        assert summarise_training(losses, [0.0]).final_loss < losses[0]


@given(LOSSES, st.integers(0, 6))
def test_medians_are_those_of_the_steps_around_each(losses, width):
    half = width // 2

    assert list(_running_medians(losses, width)) == [
        statistics.median(losses[max(0, k - half) : k + min(k, half) + 1]) for k in range(len(losses))
    ]


def write_log(*batches: tuple[str, float, float, int], norm: float | None = None) -> TrainingLog:
    step, log = OpenStep(), TrainingLog()
    for batch in batches:
        step.begin()
        step.add(*batch)
    step.write(log, norm, AdamParams(learning_rate=0.01))
    return log


def test_the_loss_of_a_step_is_the_mean_over_the_counted_tokens_of_its_batches():
    log = write_log(("a", 6.0, 2.0, 10), ("b", 3.0, 1.0, 7))

    assert (log.losses, log.tokens, log.passes) == ([3.0], [17], [[("a", 6.0), ("b", 3.0)]])
    assert log.learning_rates == [0.01]


def test_a_loss_without_counted_tokens_is_a_sum():
    assert write_log(("a", 6.0, 0.0, 10)).losses == [6.0]


def test_a_norm_that_is_not_a_number_counts_as_not_reported():
    assert write_log(("a", 1.0, 1.0, 1), norm=math.nan).gradient_norms == [None]
    assert write_log(("a", 1.0, 1.0, 1), norm=2.0).gradient_norms == [2.0]


def test_the_clock_of_a_step_starts_with_its_first_batch():
    step = OpenStep(began=5.0)
    step.begin()

    assert step.began == 5.0
    assert write_log().seconds == [0.0]
