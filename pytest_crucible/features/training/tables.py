"""The rows that training adds to tables of the core: how adapters with a recipe are prepared, and the numbers of trainings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.feature_rows import Pending, Preparation
from pytest_crucible.records import MetricFacts, TrainingResult
from pytest_crucible.records.statistics import KnownNumber

if TYPE_CHECKING:
    from pytest_crucible.adapters.adapter_kind import Origin
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.records import Adapter, Arm, Target, TargetResult


def _open(adapter: Adapter, context: AdapterContext, trained: Any) -> Adapter | Pending:
    from pytest_crucible.features.training.adapters import open_trained

    return open_trained(adapter, context, RECIPE, trained)


def _train(pending: Sequence[Pending], context: AdapterContext) -> dict[str, Any]:
    from pytest_crucible.features.training.adapters import train_pending

    return dict(train_pending(pending, context))


def _find_origin(adapter: Adapter, context: AdapterContext) -> Origin:
    from pytest_crucible.features.training.adapters import find_origin

    return find_origin(adapter, context)


def _explain_missing(pending: Sequence[Pending]) -> list[str]:
    from pytest_crucible.features.training.adapters import explain_missing

    return explain_missing(pending)


def _refuse(adapter: str) -> str:
    return f"adapter {adapter!r} is not trained yet: train it with --crucible-train"


_OPTIONS = ("lora", "seed", "hyperparameters", "at", "save_every")

RECIPE = Preparation(
    key="recipe",
    options={"local": _OPTIONS, "tinker": (*_OPTIONS, "on_lost_training")},
    setting="train",
    open=_open,
    prepare=_train,
    find_origin=_find_origin,
    explain_missing=_explain_missing,
    announcement="would be trained first (--crucible-train)",
    refusal=_refuse,
)
PREPARATIONS = (RECIPE,)


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
