"""Results of targets on the candidate's training: one number, without an interval. Of several trainings the worst counts."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records import Arm, BoundedValue, Estimate, Evidence, Target, TargetResult, TrainingResult
from pytest_crucible.records.statistics import TRAINING_STATISTIC

METHOD = "one training"


def judge_training(target: Target, arm: Arm) -> TargetResult:
    """A target on a number of an arm's training: n counts trainings, which is 0 where none is known."""
    results = _results(arm)
    value = _worst(target, [_number(training, target.metric) for training in results])
    reading = BoundedValue(value=value, lower=None, upper=None)
    method = METHOD if len(results) < 2 else f"worst of {len(results)} trainings"
    return TargetResult(
        target=target,
        estimate=Estimate(
            metric=target.metric,
            statistic=TRAINING_STATISTIC,
            arm=arm.name,
            n=len(results),
            lost=0,
            inapplicable=0,
            value=value,
            unconditional=None,
            interval=None,
            clusters=None,
            method=method,
        ),
        evidence=Evidence(observed=reading, worst=reading, best=reading, method=method),
        needed=None,
        note=_note(target.metric, value, arm),
    )


def _results(arm: Arm) -> list[TrainingResult]:
    """Return the arm's trainings; none where not all are known."""
    results = [training.result for training in arm.trainings] or [arm.training]
    known = [result for result in results if result is not None]
    return known if len(known) == len(results) else []


def _worst(target: Target, values: Sequence[float | None]) -> float | None:
    """Return the value that is farthest from the target's good side; None where one is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    if target.relation == "==":
        return max(known, key=lambda value: abs(value - target.value))
    return min(known) if target.relation.startswith(">") else max(known)


def _number(training: TrainingResult, name: str) -> float | None:
    value = getattr(training, name)
    # A target compares numbers: true counts as 1.
    return int(value) if isinstance(value, bool) else value


def _note(name: str, value: float | None, arm: Arm) -> str:
    results = _results(arm)
    if not results:
        backend = f" ({arm.adapter.partition(':')[0]})" if arm.adapter else ""
        return (
            f"nothing is known of a training of {arm.name}{backend}: there is one where a recipe made the adapter, "
            "or lineage.json lies beside its checkpoint"
        )
    if value is None:
        return _explain_undefined(name, next(result for result in results if _number(result, name) is None))
    return "another seed may give another number"


def _explain_undefined(name: str, training: TrainingResult) -> str:
    if name in ("largest_gradient_norm", "gradient_norms_finite"):
        return "the service that trained does not tell gradient norms"
    if name == "loss_reduction":
        return f"the first loss is {training.first_loss:.3g}: no share of it can be told"
    if training.final_loss >= training.first_loss:
        return f"the loss was not reduced: {training.first_loss:.3g} to {training.final_loss:.3g}"
    return f"the loss was still changing in the last fifth of {training.training_steps:,} steps"
