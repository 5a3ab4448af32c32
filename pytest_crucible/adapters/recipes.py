"""Adapters that a recipe trains: reused if they are trained already, otherwise trained before sampling begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.origin import shorten_path
from pytest_crucible.adapters.training_files import hash_declared_files
from pytest_crucible.adapters.versions import find_training_start
from pytest_crucible.records import Adapter
from pytest_crucible.records.git import git_commit
from pytest_crucible.training import Recipe, TrainedAdapter, find_recipe, find_trained, train_or_load
from pytest_crucible.training.adapter_store import find_damaged
from pytest_crucible.training.events import emit_checkpoint, emit_steps

MADE_WITH = ("recipe", "lora", "seed", "hyperparameters")
"""Options that only a training uses."""


def read_recipe(adapter: Adapter, context: AdapterContext) -> Recipe:
    """Return the recipe that an adapter names. Raises SpecError for an invalid one."""
    recipe = find_recipe(
        adapter.name,
        adapter.options["recipe"],
        kind_of(adapter).open_base(adapter, context),
        lora=adapter.options.get("lora"),
        seed=adapter.options.get("seed", 0),
        hyperparameters=adapter.options.get("hyperparameters", {}),
    )
    return replace(
        recipe,
        declared=hash_declared_files(adapter, context.root),
        find_version=lambda name: find_training_start(name, context),
    )


def find_trained_adapter(recipe: Recipe, context: AdapterContext) -> TrainedAdapter | None:
    """Return what the recipe has made, where nothing that it depends on has changed since."""
    return find_trained(recipe, context.adapters_folder)


def find_damaged_adapter(recipe: Recipe, context: AdapterContext) -> Path | None:
    """Return what is left of an adapter that the recipe has made; None without one."""
    return find_damaged(recipe, context.adapters_folder)


def with_checkpoint(adapter: Adapter, trained: TrainedAdapter) -> Adapter:
    """Return the adapter with the checkpoint that its recipe has made in the place of the recipe."""
    # The recipe's options have no effect any more: the checkpoint was made with them.
    options = {name: value for name, value in adapter.options.items() if name not in MADE_WITH}
    checkpoint = trained.lineage.checkpoint
    located = {"model_path": checkpoint} if checkpoint else {"checkpoint": str(trained.path)}
    return replace(adapter, options={**options, **located})


def train_recipes(recipes: Iterable[Recipe], context: AdapterContext) -> dict[str, TrainedAdapter]:
    """Run recipes, one after the other; returns the adapters by name. Raises SpecError when a training fails.

    Under --collect-only nothing is trained: what would be is shown.
    """
    # One after the other, so that there is one line of progress at a time.
    if not context.only_collects:
        return {recipe.adapter: _train(recipe, context) for recipe in recipes}
    for recipe in recipes:
        context.display(recipe).announce()
    return {}


def _train(recipe: Recipe, context: AdapterContext) -> TrainedAdapter:
    display, emit = context.display(recipe), context.shared.emit
    try:
        trained, is_new = train_or_load(
            recipe,
            context.adapters_folder,
            git=git_commit(context.root),
            begin=display.begin,
            wait=display.wait,
            watch=emit_steps(display.show_step, emit, recipe.adapter),
            session=context.run,
            hide=context.hide,
        )
    except BaseException as error:  # also an interrupt leaves a line of progress to be cleared
        display.fail(error)
        raise
    emit_checkpoint(emit, trained, recipe.adapter, is_new=is_new)
    place = trained.lineage.checkpoint or shorten_path(trained.path, context.invocation_folder)
    display.finish(trained.lineage, place, is_new=is_new)
    return trained
