"""Rows, recipes and trainings on a tiny base."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytest_crucible.features.training.adapter_store import train_or_load
from pytest_crucible.features.training.log import summarise_training
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.features.training.trainer import EmbeddedBase, RecipeTrainer
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.local_model.engine import Engine
from pytest_crucible.records import Lineage

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


def make_lineage(losses: Sequence[float] = (2.0, 1.0), norms: Sequence[float | None] = (3.0, 1.0), **facts) -> Lineage:
    """Return the lineage of an adapter that was trained with these losses and gradient norms."""
    texts = dict.fromkeys(("adapter_sha256", "base", "base_sha256", "recipe_sha256"), "")
    empty: dict[str, Any] = {"data": {}, "lora": {}, "hyperparameters": {}, "git": None, "parent": None}
    course = {"losses": tuple(losses), "gradient_norms": tuple(norms), "learning_rates": (1e-2,) * len(losses)}
    result = summarise_training(losses, norms)
    settings = {"recipe": "recipes:train", "seed": 0, "seconds": 1.5, "result": result}
    return Lineage(**{**texts, **empty, **course, **settings, **facts})
