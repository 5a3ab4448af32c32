"""Summarises the curves of a training in the numbers that quality targets can name."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from pytest_crucible.records import TrainingResult

NEAR = 0.05
"""Share of the whole reduction: a loss that stays this near to its final value has converged."""


def summarise_training(
    losses: Sequence[float], gradient_norms: Sequence[float | None], *, finite: bool = True
) -> TrainingResult:
    """Return the numbers of a training of at least one step. `finite` is False where a value that was not finite ended it.

    >>> summarise_training([4.0, 2.0, 1.0, 1.0], [3.0, 1.0, 0.5, 0.5]).loss_reduction
    0.75
    """
    first, final = losses[0], final_loss(losses)
    # A norm is the largest only when every step reports one; a service may not report any.
    norms = [norm for norm in gradient_norms if norm is not None]
    is_complete = len(norms) == len(losses)
    return TrainingResult(
        training_steps=len(losses),
        first_loss=first,
        final_loss=final,
        loss_reduction=1 - final / first if first > 0 else None,
        convergence_steps=convergence_steps(losses),
        largest_gradient_norm=max(norms) if is_complete else None,
        gradient_norms_finite=finite if is_complete or not finite else None,
    )


def final_loss(losses: Sequence[float]) -> float:
    """Return the mean loss of the last tenth of the steps."""
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def convergence_steps(losses: Sequence[float]) -> int | None:
    """Return the first step from which the smoothed loss stays near `final_loss`: within 5 % of the whole reduction.

    Losses are smoothed by a running median over a tenth of the steps, which neither delays nor blurs a fall. The whole
    reduction is from the first loss to `final_loss`. None if the loss was not reduced, and where it has stayed there for
    less than a fifth of the steps (at least two): it may still be falling.

    >>> convergence_steps([8.0, 4.0, 2.0, 1.0, 1.0, 1.0]), convergence_steps([4.0, 3.0, 2.0, 1.0])
    (4, None)
    """
    steps, final = len(losses), final_loss(losses)
    tolerance = NEAR * (losses[0] - final)
    if tolerance <= 0:
        return None
    far_steps = [
        step
        for step, loss in enumerate(_running_medians(losses, steps // 10), start=1)
        if abs(loss - final) > tolerance
    ]
    step = far_steps[-1] + 1 if far_steps else 1
    return step if steps - step + 1 >= max(2, steps // 5) else None


def _running_medians(losses: Sequence[float], width: int) -> Iterator[float]:
    """Yield the median of the losses around each step: as many before as after it, fewer at both ends."""
    # One sorted window that moves along, instead of sorting a tenth of the losses again for every step.
    half, read, window = width // 2, 0, list[float]()
    for step in range(len(losses)):
        end = step + min(step, half) + 1
        for loss in losses[read:end]:
            insort(window, loss)
        read = end
        if step > half:
            del window[bisect_left(window, losses[step - half - 1])]
        middle = len(window) // 2
        yield window[middle] if len(window) % 2 else (window[middle - 1] + window[middle]) / 2
