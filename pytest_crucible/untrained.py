"""Adapters whose recipe has yet to be run: what stands for them until then, and which they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pytest_crucible.errors import Refused
from pytest_crucible.records import Reply, Request

if TYPE_CHECKING:
    from pytest_crucible.contenders import Contender
    from pytest_crucible.training import Recipe


class Untrained:
    """Stands for an adapter until it is trained, which is not before all else is known to be right."""

    simulated = False

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.identity = recipe.key  # two names of one recipe are one checkpoint

    async def generate(self, request: Request) -> Reply:
        raise Refused(f"adapter {self.recipe.adapter!r} is not trained yet: nothing can be asked")


def untrained(found: Iterable[Contender]) -> list[Recipe]:
    """The recipes that have yet to be run, those of members of ensembles among them, each adapter's once."""
    recipes: dict[str, Recipe] = {}
    for one in found:
        recipes |= {recipe.adapter: recipe for recipe in untrained(one.members)}
        if isinstance(one.backend, Untrained):
            recipes[one.backend.recipe.adapter] = one.backend.recipe
    return list(recipes.values())


def not_trained(recipes: Sequence[Recipe]) -> str:
    """What is missing, all of it, and what to do."""
    names, made = (" and ".join(repr(getattr(one, name)) for one in recipes) for name in ("adapter", "name"))
    if len(recipes) == 1:
        said = f"adapter {names} is not trained with recipe {made}, its data and its base as they are now: train it"
    else:
        said = f"adapters {names} are not trained with recipes {made}, their data and bases as they are now: train them"
    return f"{said} with --crucible-train"
