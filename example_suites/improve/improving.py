"""How this suite's two adapters come to be: v1 learns from right answers, v2 goes on from v1 and learns from v1's failures."""

from __future__ import annotations

import random

from pytest_crucible.features.training.trainer import RecipeTrainer

ROWS = "training.jsonl"
"""The first half of the rows of `claims`. In a file of its own: all rows of a file that a recipe reads count as training data."""
PAIRS = ".crucible/pairs.jsonl"
BATCH = 8


def train_v1(trainer: RecipeTrainer) -> None:
    """Nine steps: a first look at the format."""
    data, draw = trainer.datums(ROWS), random.Random(trainer.seed)
    for _ in range(9):
        trainer.step(draw.sample(data, BATCH), learning_rate=1e-3)


def train_v2(trainer: RecipeTrainer) -> None:
    """One pass over v1's failures, each beside the right answer."""
    trainer.start_from("claims@1")
    pairs = trainer.preferences(PAIRS)
    random.Random(trainer.seed).shuffle(pairs)
    for start in range(0, len(pairs), BATCH):
        trainer.step(pairs[start : start + BATCH], loss="dpo", config={"beta": 0.1}, learning_rate=1e-4)
