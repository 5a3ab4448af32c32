"""Recipes: functions that train an adapter of the embedded model or on a Tinker service, and the adapters they have made.

    def train_v2(trainer: RecipeTrainer) -> None:
        data = trainer.datums("train.jsonl")
        draw = random.Random(trainer.seed)
        for _ in range(40):
            trainer.step(draw.sample(data, 8), learning_rate=3e-3)

The value that a recipe returns is ignored: the trainer records what was done.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pytest_crucible.features.row import Feature, Option

if TYPE_CHECKING:
    from pytest_crucible.features.training import regularizers
    from pytest_crucible.features.training.log import TrainingStopped
    from pytest_crucible.features.training.trainer import RecipeTrainer
    from pytest_crucible.local_model.config import Datum
    from pytest_crucible.local_model.losses import AdamParams

FEATURE = Feature(
    "training",
    options=(
        Option("train", "train adapters that have a recipe and are not trained yet", False, key="bool", flag=True),
    ),
    adapter_keys=("recipe",),
    tables={
        "further_exports": "pytest_crucible.features.training.export:EXPORTS",
        "preparations": "pytest_crucible.features.training.tables:PREPARATIONS",
        "known_numbers": "pytest_crucible.features.training.known_numbers:KNOWN_NUMBERS",
    },
)

_HOME = {
    "AdamParams": "local_model.losses",
    "Datum": "local_model.config",
    "RecipeTrainer": "features.training.trainer",
    "TrainingStopped": "features.training.log",
    "regularizers": "features.training.regularizers",
}

__all__ = ["AdamParams", "Datum", "RecipeTrainer", "TrainingStopped", "regularizers"]


def __getattr__(name: str) -> Any:
    # Imported when used: this module is read in every pytest session.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(f"pytest_crucible.{_HOME[name]}")
    return home if name == "regularizers" else getattr(home, name)
