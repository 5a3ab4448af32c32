"""Rows, recipes and trainings on a tiny base."""

from __future__ import annotations

import random
from pathlib import Path

from pytest_crucible.features.training.adapter_store import train_or_load
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.features.training.trainer import EmbeddedBase, RecipeTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine

ROWS = [{"prompt": f"{number}?", "completion": "five"} for number in range(8)]


def steps(trainer: RecipeTrainer, count: int, rate: float = 1e-2) -> None:
    data, draw = trainer.datums(ROWS), random.Random(trainer.seed)
    for _ in range(count):
        trainer.step(draw.sample(data, 4), learning_rate=rate)


def make_recipe(engine: Engine, function, name: str = "v2", **settings) -> Recipe:
    return Recipe(name, "recipes:train", function, EmbeddedBase(engine, "tiny"), LoraSpec(rank=4, **settings))


def train_recipe(recipe: Recipe, folder: Path, **callbacks):
    callbacks = {"begin": lambda: None, "wait": lambda: None, "watch": lambda log: None, **callbacks}
    return train_or_load(recipe, folder, git=None, **callbacks)
