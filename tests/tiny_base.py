"""A base model of random weights, small enough to be made and trained in a moment, as a user with a base of their own has it."""

from __future__ import annotations

from pathlib import Path

from base_model.gradients import initial_weights
from base_model.tokenizer import train_tokenizer
from pytest_crucible.local_model.checkpoints import save_base
from pytest_crucible.local_model.config import Shape

TEXTS = ["What is the sum of two and three?", "The answer is five.", "The sum of one and one is two."]
CONTEXT = 48


def write_tiny_base(directory: Path, seed: int = 0) -> Path:
    """Two layers of width 32 and a tokenizer of a few merges, in the files that a base model has."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(TEXTS, vocabulary=280)
    shape = Shape(vocabulary=tokenizer.vocabulary, width=32, layers=2, heads=2, mlp=64, context=CONTEXT)
    save_base(directory / "model.safetensors", initial_weights(shape, seed), shape)
    tokenizer.save(directory / "tokenizer.json")
    return directory
