"""Results of targets on the candidate's training. One training gives one number, without an interval."""

from __future__ import annotations

from pytest_crucible.records import Arm, BoundedValue, Estimate, Evidence, Target, TargetResult, TrainingResult
from pytest_crucible.records.statistics import TRAINING_STATISTIC

METHOD = "one training"


def judge_training(target: Target, arm: Arm) -> TargetResult:
    """A target on a number of an arm's training: n counts trainings, which is 1, or 0 where none is known."""
    value = None if arm.training is None else _number(arm.training, target.metric)
    reading = BoundedValue(value=value, lower=None, upper=None)
    return TargetResult(
        target=target,
        estimate=Estimate(
            metric=target.metric,
            statistic=TRAINING_STATISTIC,
            arm=arm.name,
            n=int(arm.training is not None),
            lost=0,
            inapplicable=0,
            value=value,
            unconditional=None,
            interval=None,
            clusters=None,
            method=METHOD,
        ),
        evidence=Evidence(observed=reading, worst=reading, best=reading, method=METHOD),
        needed=None,
        note=_note(target.metric, value, arm),
    )


def _number(training: TrainingResult, name: str) -> float | None:
    value = getattr(training, name)
    # A target compares numbers: true counts as 1.
    return int(value) if isinstance(value, bool) else value


def _note(name: str, value: float | None, arm: Arm) -> str:
    if arm.training is None:
        backend = f" ({arm.adapter.partition(':')[0]})" if arm.adapter else ""
        return (
            f"nothing is known of a training of {arm.name}{backend}: there is one where a recipe made the adapter, "
            "or lineage.json lies beside its checkpoint"
        )
    if value is None:
        return _explain_undefined(name, arm.training)
    return "another seed may give another number"


def _explain_undefined(name: str, training: TrainingResult) -> str:
    if name in ("largest_gradient_norm", "gradient_norms_finite"):
        return "the service that trained does not tell gradient norms"
    if name == "loss_reduction":
        return f"the first loss is {training.first_loss:.3g}: no share of it can be told"
    if training.final_loss >= training.first_loss:
        return f"the loss was not reduced: {training.first_loss:.3g} to {training.final_loss:.3g}"
    return f"the loss was still changing in the last fifth of {training.training_steps:,} steps"
