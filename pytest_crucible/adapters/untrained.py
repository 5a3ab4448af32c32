"""Adapters whose recipe has not been run yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_crucible.adapters.opened_arm import OpenedArm
from pytest_crucible.backends import Backend
from pytest_crucible.records import Reply, Request
from pytest_crucible.records.errors import Refused

if TYPE_CHECKING:
    from pytest_crucible.training import Recipe


class Untrained:
    """A placeholder for an adapter until it is trained, after everything else has been checked."""

    simulated = False

    def __init__(self, recipe: Recipe, damaged: Path | None = None) -> None:
        """`damaged` is a directory with the remains of the adapter."""
        self.recipe, self.damaged = recipe, damaged
        # Two adapters with one recipe would be one checkpoint, and comparing them is refused.
        self.identity = recipe.identity
        self.estimating: Backend | None = None
        """Receives the requests that the trained adapter would be sent, where a run is estimated."""

    async def generate(self, request: Request) -> Reply:
        if self.estimating is not None:
            return await self.estimating.generate(request)
        raise Refused(f"adapter {self.recipe.adapter!r} is not trained yet: train it with --crucible-train")


def untrained_recipes(opened: Iterable[OpenedArm]) -> list[Recipe]:
    """Return the recipes that have not been run yet, once for each adapter, with those of members and of seeds."""
    recipes: dict[str, Recipe] = {}
    for arm in opened:
        recipes |= {recipe.adapter: recipe for recipe in untrained_recipes(arm.parts)}
        if isinstance(arm.backend, Untrained):
            recipes[arm.backend.recipe.adapter] = arm.backend.recipe
    return list(recipes.values())


def explain_missing(opened: Sequence[OpenedArm]) -> list[str]:
    """Return a sentence on the adapters that have to be trained, and one on each whose checkpoint is damaged."""
    damaged = _damaged_folders(opened)
    recipes = [recipe for recipe in untrained_recipes(opened) if recipe.adapter not in damaged]
    sentences = [
        f"adapter {name!r} cannot be loaded: its checkpoint {str(folder)!r} is damaged (its weights are not those that its "
        "lineage describes): restore it, or train it again with --crucible-train"
        for name, folder in damaged.items()
    ]
    return [*sentences, explain_untrained(recipes)] if recipes else sentences


def _damaged_folders(opened: Iterable[OpenedArm]) -> dict[str, Path]:
    folders: dict[str, Path] = {}
    for arm in opened:
        folders |= _damaged_folders(arm.parts)
        if isinstance(arm.backend, Untrained) and arm.backend.damaged is not None:
            folders[arm.backend.recipe.adapter] = arm.backend.damaged
    return folders


def explain_untrained(recipes: Sequence[Recipe]) -> str:
    """Return a sentence that names all adapters that have to be trained, and the option that trains them."""
    names, recipe_names = (
        " and ".join(repr(getattr(recipe, name)) for recipe in recipes) for name in ("adapter", "name")
    )
    if len(recipes) == 1:
        sentence = f"adapter {names} is not trained with recipe {recipe_names}, its data and its base as they are now: train it"
    else:
        sentence = f"adapters {names} are not trained with recipes {recipe_names}, their data and bases as they are now: train them"
    return f"{sentence} with --crucible-train"
