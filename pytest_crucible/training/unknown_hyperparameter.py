"""The error for a hyperparameter that a recipe does not take. Apart from recipes: they load the local model."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.records.errors import SpecError


class UnknownHyperparameter(SpecError):
    """A hyperparameter that the recipe's function does not take."""

    def __init__(self, where: str, recipe: str, name: str, names: Sequence[str]) -> None:
        """`where` is the beginning of the sentence: which adapter has it."""
        self.recipe, self.name, self.names = recipe, name, names
        takes = f"use {' or '.join(names)}" if names else f"add it, as in def train(trainer, {name}=...)"
        super().__init__(f"{where}, but recipe {recipe!r} has no argument {name!r}: {takes}")
