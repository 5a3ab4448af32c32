"""The numbers of a training: targets on them, the mean of several trainings with its interval, and the section about them.

The unit is the training, and n counts trainings: nothing here is about samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import (
    Arm,
    BoundedValue,
    Claim,
    Estimate,
    Evidence,
    Note,
    Target,
    TargetResult,
    TrainingResult,
    View,
)
from pytest_crucible.records.plan import FEWEST_LEVELS
from pytest_crucible.records.statistics import known_numbers
from pytest_crucible.sections.inputs import SectionInputs
from pytest_crucible.stats import mean_interval, t_bound
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.number_format import quantity

METHOD = "one training"


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
        return _without_bounds(None, METHOD)
    if len(numbers) == 1:
        return _without_bounds(numbers[0], METHOD)
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
        return _without_bounds(mean, f"mean of {count} trainings")
    scale = _choose_scale(name, numbers)
    scaled = [scale.there(number) for number in numbers]
    value = scale.back(sum(scaled) / count)
    if not is_random or count < FEWEST_LEVELS:
        return _without_bounds(value, f"{scale.mean} of {count} trainings")
    ends = [t_bound(scaled, alpha=alpha, side=side) for side in ("lower", "upper")]
    # Back from a scale the order may be the other way round: a high loss is a low reduction.
    lower, upper = sorted(scale.back(end) for end in ends if end is not None)
    return TrainingMean(
        BoundedValue(value=value, lower=lower, upper=upper),
        _interval(name, scaled, scale, alpha),
        f"{scale.t} over {count} trainings",
    )


def _without_bounds(value: float | None, method: str) -> TrainingMean:
    return TrainingMean(BoundedValue(value=value, lower=None, upper=None), None, method)


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


decides = False  # no claim of it can fail the session


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainings:
    """Training results by the arm's name, or by that of each of its trainings."""

    candidate: Arm
    results: Mapping[str, TrainingResult]
    has_target: bool
    """A quality target is about a number of the candidate's training."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Arm -> the step of its training that it is, where the recipe kept it before the end."""


def compute(inputs: SectionInputs) -> Trainings | None:
    """Return the training of each arm where it is known; None if no arm's is."""
    arms = inputs.plan.arms
    results = {arm.name: arm.training for arm in arms if arm.training is not None}
    results |= {run.name: run.result for arm in arms for run in arm.trainings if run.result is not None}
    if not results:
        return None
    candidate = inputs.plan.candidate
    # A metric of the same name goes before the training's number.
    metrics = [target.metric for target in inputs.plan.targets if target.metric not in inputs.facts]
    numbers = [getattr(candidate.training, name, None) for name in metrics if name in known_numbers()]
    return Trainings(
        candidate=candidate,
        results=results,
        has_target=any(number is not None for number in numbers),
        steps={arm.name: arm.step for arm in arms if arm.step is not None},
    )


def claims(trainings: Trainings) -> Sequence[Claim]:
    return ()


def view(trainings: Trainings, claims: Sequence[Claim]) -> View:
    """Return a note on each arm that a recipe kept before its end, and one if a target is about the candidate's training."""
    notes = [
        Note(text=f"{arm} has the weights of step {step}, which its recipe kept before its end")
        for arm, step in trainings.steps.items()
    ]
    if trainings.has_target and (training := trainings.candidate.training) is not None:
        steps = quantity(training.training_steps, "step")
        text = f"{trainings.candidate.name} was trained once, in {steps}: another seed may give other numbers"
        notes.append(Note(text=text))
    return View(title="Training", notes=tuple(notes), document=trainings.results)
