"""Recipes: functions that train an adapter, of the embedded model or on a Tinker service, and the adapters that they have trained.

    def train_v2(trainer: RecipeTrainer) -> None:
        data = trainer.datums("train.jsonl")
        draw = random.Random(trainer.seed)
        for _ in range(40):
            trainer.step(draw.sample(data, 8), learning_rate=3e-3)

What a recipe returns does not matter: the trainer writes down what it does.
"""

from pytest_crucible.training.log import Log, TrainingStopped
from pytest_crucible.training.recipe import Recipe, find_recipe
from pytest_crucible.training.trained import Trained, find_trained, obtain, trained_adapters
from pytest_crucible.training.trainer import RecipeTrainer

__all__ = [
    "Log",
    "Recipe",
    "RecipeTrainer",
    "Trained",
    "TrainingStopped",
    "find_recipe",
    "find_trained",
    "obtain",
    "trained_adapters",
]
