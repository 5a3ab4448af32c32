"""What the curves of a training come to, in the numbers that quality targets name."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from pytest_crucible.records import TrainingResult

NEAR = 0.05
"""Of the whole reduction: a loss that stays so near to its end has converged."""


def result_of(
    losses: Sequence[float], gradient_norms: Sequence[float | None], *, finite: bool = True
) -> TrainingResult:
    """The numbers of a training of at least one step. `finite` is False for one that ended because something was not.

    >>> result_of([4.0, 2.0, 1.0, 1.0], [3.0, 1.0, 0.5, 0.5]).loss_reduction
    0.75
    """
    first, final = losses[0], final_loss(losses)
    norms = [norm for norm in gradient_norms if norm is not None]
    told = len(norms) == len(losses)
    return TrainingResult(
        training_steps=len(losses),
        first_loss=first,
        final_loss=final,
        loss_reduction=1 - final / first if first > 0 else None,
        convergence_steps=convergence_steps(losses),
        largest_gradient_norm=max(norms) if told else None,
        gradient_norms_finite=finite if told or not finite else None,
    )


def final_loss(losses: Sequence[float]) -> float:
    """The mean of the last tenth of the steps."""
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def convergence_steps(losses: Sequence[float]) -> int | None:
    """The first step from which the smoothed loss stays within 5 % of its whole reduction of where it ends.

    It is smoothed by a running median over a tenth of the steps, which neither delays nor blurs a fall; it ends at
    `final_loss`, and the whole reduction is that from the first loss to there. None where the loss was not reduced, and where
    it has stayed for less than a fifth of the steps (two at least): it may still be falling then.

    >>> convergence_steps([8.0, 4.0, 2.0, 1.0, 1.0, 1.0]), convergence_steps([4.0, 3.0, 2.0, 1.0])
    (4, None)
    """
    steps, final = len(losses), final_loss(losses)
    allowed = NEAR * (losses[0] - final)
    if allowed <= 0:
        return None
    far = [step for step, loss in enumerate(_smoothed(losses, steps // 10), start=1) if abs(loss - final) > allowed]
    step = far[-1] + 1 if far else 1
    return step if steps - step + 1 >= max(2, steps // 5) else None


def _smoothed(losses: Sequence[float], width: int) -> Iterator[float]:
    """The median of the losses around each step: as many on either side, of which the first steps have few, the last not all."""
    half, seen, window = width // 2, 0, list[float]()
    for step in range(len(losses)):
        end = step + min(step, half) + 1
        for loss in losses[seen:end]:
            insort(window, loss)
        seen = end
        if step > half:
            del window[bisect_left(window, losses[step - half - 1])]
        middle = len(window) // 2
        yield window[middle] if len(window) % 2 else (window[middle - 1] + window[middle]) / 2
