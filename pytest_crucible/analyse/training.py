"""Results of targets on the candidate's training: one number, or of several trainings their mean with its interval.

The unit is the training, and n counts trainings: nothing here is about samples.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.analyse.training_means import TrainingMean, average_trainings
from pytest_crucible.records import Arm, BoundedValue, Estimate, Evidence, Target, TargetResult, TrainingResult
from pytest_crucible.records.factors import FEWEST_LEVELS
from pytest_crucible.records.statistics import TRAINING_STATISTIC

METHOD = "one training"
_UNKNOWN = BoundedValue(value=None, lower=None, upper=None)


def evaluate_training(target: Target, arm: Arm, *, alpha: float, is_fixed: bool = False) -> TargetResult:
    """Return the result of a target on a number of an arm's training: n counts trainings, and is 0 where none is known.

    Of several trainings the mean is compared with the target, with an interval over at least three; `is_fixed` declares that the
    target is about these trainings alone, which leaves nothing to estimate.
    """
    results = _results(arm)
    mean = _average(target.metric, results, alpha=alpha, is_random=not is_fixed)
    return TargetResult(
        target=target,
        estimate=Estimate(
            metric=target.metric,
            statistic=TRAINING_STATISTIC,
            arm=arm.name,
            n=len(results),
            lost=0,
            inapplicable=0,
            value=mean.bounds.value,
            unconditional=None,
            interval=mean.interval,
            clusters=None,
            method=mean.method,
        ),
        evidence=Evidence(observed=mean.bounds, worst=mean.bounds, best=mean.bounds, method=mean.method),
        needed=None,
        note=_note(target.metric, mean.bounds.value, arm, is_fixed=is_fixed),
    )


def _average(name: str, results: Sequence[TrainingResult], *, alpha: float, is_random: bool) -> TrainingMean:
    """Return the number of one training, or the mean of several; unknown if one does not have it."""
    numbers = [number for training in results if (number := _number(training, name)) is not None]
    if not numbers or len(numbers) < len(results):
        return TrainingMean(_UNKNOWN, None, METHOD)
    if len(numbers) == 1:
        return TrainingMean(BoundedValue(value=numbers[0], lower=None, upper=None), None, METHOD)
    return average_trainings(name, numbers, alpha=alpha, is_random=is_random)


def _results(arm: Arm) -> list[TrainingResult]:
    """Return the arm's trainings; none if not all are known."""
    results = [training.result for training in arm.trainings] or [arm.training]
    values = [result for result in results if result is not None]
    return values if len(values) == len(results) else []


def _number(training: TrainingResult, name: str) -> float | None:
    value = getattr(training, name)
    # A target compares numbers: true counts as 1.
    return int(value) if isinstance(value, bool) else value


def _note(name: str, value: float | None, arm: Arm, *, is_fixed: bool) -> str:
    results = _results(arm)
    if not results:
        backend = f" ({arm.adapter.partition(':')[0]})" if arm.adapter else ""
        return (
            f"nothing is known of a training of {arm.name}{backend}: there is one where a recipe made the adapter, "
            "or lineage.json lies beside its checkpoint"
        )
    if value is None:
        return _explain_undefined(name, next(result for result in results if _number(result, name) is None))
    if is_fixed and len(results) > 1:
        return f"of these {len(results)} trainings alone"
    few = f": {FEWEST_LEVELS} trainings have an interval" if len(results) < FEWEST_LEVELS else ""
    return f"another seed may give another number{few if len(results) > 1 else ''}"


def _explain_undefined(name: str, training: TrainingResult) -> str:
    if name in ("largest_gradient_norm", "gradient_norms_finite"):
        return "the service that trained does not tell gradient norms"
    if name == "loss_reduction":
        return f"the first loss is {training.first_loss:.3g}: no share of it can be told"
    if training.final_loss >= training.first_loss:
        return f"the loss was not reduced: {training.first_loss:.3g} to {training.final_loss:.3g}"
    return f"the loss was still changing in the last fifth of {training.training_steps:,} steps"
