"""The row that training adds to the preparations of adapters: how one with a recipe is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pytest_crucible.adapters.feature_rows import Pending, Preparation

if TYPE_CHECKING:
    from pytest_crucible.adapters.adapter_kind import Origin
    from pytest_crucible.adapters.context import AdapterContext
    from pytest_crucible.records import Adapter


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
