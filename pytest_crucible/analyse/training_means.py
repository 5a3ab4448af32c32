"""The mean of a number over several trainings, with its interval and bounds over trainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_crucible.records import BoundedValue
from pytest_crucible.records.factors import FEWEST_LEVELS
from pytest_crucible.records.training import TRAINING_RANGES
from pytest_crucible.stats import mean_interval, t_bound
from pytest_crucible.stats.interval import Interval

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
    low, high = TRAINING_RANGES[name]
    ends = sorted((scale.back(interval.low), scale.back(interval.high)))
    # Of three trainings an interval may reach beyond what is possible.
    return Interval(low=max(ends[0], low), high=min(ends[1], high), level=interval.level, method=scale.t)
