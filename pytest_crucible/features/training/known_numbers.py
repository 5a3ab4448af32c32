"""The numbers of a training, which targets may name: they are known before anything is sent."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from pytest_crucible.records import MetricFacts, TrainingResult
from pytest_crucible.records.statistics import KnownNumber

if TYPE_CHECKING:
    from pytest_crucible.records import Arm, Target, TargetResult


def _evaluate(target: Target, arm: Arm, *, alpha: float, is_fixed: bool) -> TargetResult:
    from pytest_crucible.features.training.numbers import evaluate_training

    return evaluate_training(target, arm, alpha=alpha, is_fixed=is_fixed)


SOURCE = "training"
_LIMITS = {
    "training_steps": (1.0, math.inf),
    "convergence_steps": (1.0, math.inf),
    "loss_reduction": (-math.inf, 1.0),
    "largest_gradient_norm": (0.0, math.inf),
    "gradient_norms_finite": (0.0, 1.0),
}
RANGES = {field.name: _LIMITS.get(field.name, (-math.inf, math.inf)) for field in fields(TrainingResult)}
"""The numbers of a training, with the lowest and the highest value that each can have."""
KNOWN_NUMBERS = tuple(
    KnownNumber(MetricFacts(name=name, low=low, high=high), SOURCE, _evaluate) for name, (low, high) in RANGES.items()
)
