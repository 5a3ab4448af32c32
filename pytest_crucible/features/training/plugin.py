"""The hooks and tables of training: recipes, the numbers of trainings, and training sets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.feature_rows import Pending, Preparation
from pytest_crucible.features.row import Placed
from pytest_crucible.records import MetricFacts, TrainingResult
from pytest_crucible.records.statistics import KnownNumber

if TYPE_CHECKING:
    import pytest

    from pytest_crucible.adapters.adapter_kind import Origin
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.records import Adapter, Arm, Plan, Target, TargetResult
    from pytest_crucible.session.experiment import SessionEstimate
    from pytest_crucible.store.prune import Leftovers


def pytest_crucible_sections() -> dict[str, Placed]:
    return {"training": Placed(130, "pytest_crucible.features.training.numbers", _has_trainings)}


def _has_trainings(plan: Plan) -> bool:
    return any(arm.training is not None or arm.trainings for arm in plan.arms)


def pytest_crucible_estimate_session(estimate: SessionEstimate, config: pytest.Config) -> None:
    """Add lines on the trainings that the run would begin with, from how long earlier ones of the same recipe took."""
    from pytest_crucible.adapters.context import ADAPTERS, files_folder

    folder = files_folder(config.rootpath, estimate.settings.store) / ADAPTERS
    # Before those of other features: what is done first is shown first.
    estimate.lines[:0] = _estimate_lines(estimate, folder)


def pytest_crucible_leftovers(folder: Path, before: float) -> Leftovers:
    """Return the states of interrupted trainings that no process runs."""
    from pytest_crucible.adapters.context import ADAPTERS
    from pytest_crucible.features.training.recipe import find_unfinished
    from pytest_crucible.store.prune import Leftovers

    return Leftovers("unfinished_trainings", "unfinished training", find_unfinished(folder / ADAPTERS, before))


def _estimate_lines(estimate: SessionEstimate, folder: Path) -> Iterator[str]:
    from pytest_crucible.adapters.feature_rows import find_pending
    from pytest_crucible.stats.number_format import quantity

    pending = find_pending(estimate.arms)
    if not pending:
        return
    # The import loads numpy and the local model, which sessions without recipes do not need.
    from pytest_crucible.backends.lineages import trained_adapters
    from pytest_crucible.features.training.adapters import find_recipes

    lineages = [trained.lineage for trained in trained_adapters(folder)]
    # Adapters of one key share a training.
    names = {recipe.key: recipe.name for recipe in find_recipes(pending)}
    for name, count in Counter(names.values()).items():
        # The trials of a search have one recipe; some are not proposed yet.
        total = count + estimate.further
        earlier = [each.seconds for each in lineages if each.recipe == name and each.step is None and not each.stopped]
        took = f"as {quantity(len(earlier), 'earlier training')} took" if len(earlier) > 1 else _UNKNOWN
        yield f"training {quantity(total, 'run')} of {name}: {estimate.forecast_seconds(earlier, total)} ({took})"


_UNKNOWN = "no two earlier ones tell how long"


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
