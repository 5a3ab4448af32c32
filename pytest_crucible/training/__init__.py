"""Recipes: functions that train an adapter of the embedded model or on a Tinker service, and the adapters they have made.

    def train_v2(trainer: RecipeTrainer) -> None:
        data = trainer.datums("train.jsonl")
        draw = random.Random(trainer.seed)
        for _ in range(40):
            trainer.step(draw.sample(data, 8), learning_rate=3e-3)

The value that a recipe returns is ignored: the trainer records what was done.
"""

from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import AdamParams
from pytest_crucible.training.adapter_store import train_or_load
from pytest_crucible.training.log import TrainingLog, TrainingStopped
from pytest_crucible.training.recipe import Recipe, find_recipe
from pytest_crucible.training.trained_adapters import TrainedAdapter, find_trained, trained_adapters
from pytest_crucible.training.trainer import RecipeTrainer

__all__ = [
    "AdamParams",
    "Datum",
    "Recipe",
    "RecipeTrainer",
    "TrainedAdapter",
    "TrainingLog",
    "TrainingStopped",
    "find_recipe",
    "find_trained",
    "train_or_load",
    "trained_adapters",
]
