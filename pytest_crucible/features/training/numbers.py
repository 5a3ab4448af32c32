"""The numbers of a training: targets on them, as one number, or the mean of several trainings with its interval.

The unit is the training, and n counts trainings: nothing here is about samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_crucible.records import (
    Arm,
    BoundedValue,
    Estimate,
    Evidence,
    Target,
    TargetResult,
    TrainingResult,
)
from pytest_crucible.records.plan import FEWEST_LEVELS
from pytest_crucible.records.statistics import known_numbers
from pytest_crucible.stats import mean_interval, t_bound
from pytest_crucible.stats.interval import Interval

METHOD = "one training"
_UNKNOWN = BoundedValue(value=None)


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
            statistic=known_numbers()[target.metric].source,
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


FLAGS = ("gradient_norms_finite",)
"""Numbers that are true or false: a share of three trainings has no Student's t."""


@dataclass(frozen=True, slots=True)
class TrainingMean:
    """The mean over trainings; without interval and bounds where trainings are too few, or do not differ."""

    bounds: BoundedValue
    interval: Interval | None
    method: str


def average_trainings(name: str, numbers: Sequence[float], *, alpha: float, is_random: bool) -> TrainingMean:
    """Return the mean of a number over trainings, with Student's t over at least three that stand for other seeds.

    Losses, norms and steps differ from seed to seed by factors, and `loss_reduction` is 1 minus such a factor: where all are
    above 0, mean and t are those of logarithms, of which the mean is the geometric one. With plain numbers the bound that
    proves a reduction would be wrong in 9 to 23 % of cases instead of 5 (`tests/truth/test_trainings_truth.py`).

    >>> mean = average_trainings("loss_reduction", [0.99, 0.96, 0.98], alpha=0.05, is_random=True)
    >>> round(mean.bounds.value, 4), round(mean.bounds.lower, 4), mean.method
    (0.98, 0.9357, 't of logarithms over 3 trainings')
    """
    count = len(numbers)
    # Equal numbers, as those of a recipe that ignores its seed, have no spread to prove anything by.
    if len(set(numbers)) == 1 or name in FLAGS:
        mean = numbers[0] if len(set(numbers)) == 1 else sum(numbers) / count
        return TrainingMean(BoundedValue(value=mean, lower=None, upper=None), None, f"mean of {count} trainings")
    scale = _choose_scale(name, numbers)
    scaled = [scale.there(number) for number in numbers]
    value = scale.back(sum(scaled) / count)
    if not is_random or count < FEWEST_LEVELS:
        bounds = BoundedValue(value=value, lower=None, upper=None)
        return TrainingMean(bounds, None, f"{scale.mean} of {count} trainings")
    ends = [t_bound(scaled, alpha=alpha, side=side) for side in ("lower", "upper")]
    # Back from a scale the order may be the other way round: a high loss is a low reduction.
    lower, upper = sorted(scale.back(end) for end in ends if end is not None)
    return TrainingMean(
        BoundedValue(value=value, lower=lower, upper=upper),
        _interval(name, scaled, scale, alpha),
        f"{scale.t} over {count} trainings",
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    there: Callable[[float], float]
    back: Callable[[float], float]
    mean: str = "geometric mean"
    t: str = "t of logarithms"


_PLAIN = _Scale(float, float, "mean", "t")
_LOGARITHMS = _Scale(math.log, math.exp)
_LOGARITHMS_OF_REST = _Scale(lambda number: math.log(1 - number), lambda logarithm: 1 - math.exp(logarithm))


def _choose_scale(name: str, numbers: Sequence[float]) -> _Scale:
    """Return the scale of a number: a loss may be negative, as that of a policy is."""
    if name == "loss_reduction":
        return _LOGARITHMS_OF_REST if max(numbers) < 1 else _PLAIN
    return _LOGARITHMS if min(numbers) > 0 else _PLAIN


def _interval(name: str, scaled: Sequence[float], scale: _Scale, alpha: float) -> Interval | None:
    interval = mean_interval(scaled, level=1 - alpha)
    if interval is None:
        return None
    facts = known_numbers()[name].facts
    ends = sorted((scale.back(interval.low), scale.back(interval.high)))
    # Of three trainings an interval may reach beyond what is possible.
    return Interval(low=max(ends[0], facts.low), high=min(ends[1], facts.high), level=interval.level, method=scale.t)
