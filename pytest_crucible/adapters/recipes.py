"""Adapters that a recipe trains: reused if they are trained already, otherwise trained before sampling begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_crucible.adapters.arm_makers import find_training_start
from pytest_crucible.adapters.context import AdapterContext
from pytest_crucible.adapters.kinds import kind_of
from pytest_crucible.adapters.origin import shorten_path
from pytest_crucible.adapters.training_files import hash_declared_files
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError
from pytest_crucible.records.git import git_commit
from pytest_crucible.training import Recipe, TrainedAdapter, find_recipe, find_trained, train_or_load
from pytest_crucible.training.log import SAVE_EVERY
from pytest_crucible.training.recipe import FAIL
from pytest_crucible.training.trained_adapters import emit_checkpoint, emit_steps, find_damaged, read_step, step_folder

MADE_WITH = ("recipe", "lora", "seed", "hyperparameters", "at", "save_every", "on_lost_training")
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
        at=adapter.options.get("at"),
        save_every=adapter.options.get("save_every", SAVE_EVERY),
        on_lost=adapter.options.get("on_lost_training", FAIL),
    )
    return replace(
        recipe,
        declared=hash_declared_files(adapter, context.root),
        find_version=lambda name: find_training_start(name, context),
    )


def find_trained_adapter(recipe: Recipe, context: AdapterContext) -> TrainedAdapter | None:
    """Return the recipe's result, if nothing that it depends on has changed since."""
    return find_trained(recipe, context.adapters_folder)


def find_damaged_adapter(recipe: Recipe, context: AdapterContext) -> Path | None:
    """Return the remains of an adapter that the recipe trained; None if there are none."""
    return find_damaged(recipe, context.adapters_folder)


def with_checkpoint(adapter: Adapter, trained: TrainedAdapter) -> Adapter:
    """Return the adapter with the checkpoint that its recipe has made in the place of the recipe.

    Raises SpecError for a step `at` that the recipe has not kept.
    """
    at = adapter.options.get("at")
    if at is not None:
        trained = find_step(adapter, at, trained)
    # The recipe's options have no effect any more: the checkpoint was made with them.
    options = {name: value for name, value in adapter.options.items() if name not in MADE_WITH}
    checkpoint = trained.lineage.checkpoint
    located = {"model_path": checkpoint} if checkpoint else {"checkpoint": str(trained.path)}
    return replace(adapter, options={**options, **located})


def find_step(adapter: Adapter, step: int, trained: TrainedAdapter) -> TrainedAdapter:
    """Return the weights of a step that the adapter's recipe has kept, or of its last. Raises SpecError for any other step."""
    saved_steps, last = trained.lineage.kept, trained.lineage.result.training_steps
    if step not in saved_steps:
        if step == last:
            return trained
        raise SpecError(_explain_step(adapter, step, saved_steps, last))
    lineage = read_step(trained.path, step)
    if lineage is None:
        raise SpecError(
            f"adapter {adapter.name!r}: step {step} in {str(trained.path)!r} is damaged: train it again with --crucible-train"
        )
    return TrainedAdapter(step_folder(trained.path, step), lineage)


def _explain_step(adapter: Adapter, step: int, kept: Sequence[int], last: int) -> str:
    before = [str(number) for number in kept if number != last]
    steps = (
        f"kept step{'s' * (len(before) > 1)} {', '.join(before)} and its last, {last}"
        if before
        else f"kept its last step, {last}"
    )
    use = "use one of them" if before else f"use at = {last}"
    more = f", or call trainer.checkpoint({step}) in it" if step < last else ""
    return f"adapter {adapter.name!r} has at = {step}, but recipe {adapter.options['recipe']!r} {steps}: {use}{more}"


def train_recipes(recipes: Iterable[Recipe], context: AdapterContext) -> dict[str, TrainedAdapter]:
    """Run recipes, one after the other; return the adapters by name. Raises SpecError when a training fails.

    Adapters that differ in `at`, or in their sampling, share one training. Under --collect-only nothing is trained: what would
    be is shown.
    """
    trained: dict[str, TrainedAdapter] = {}
    first: dict[str, str] = {}
    # One after the other, so that there is one line of progress at a time.
    for recipe in recipes:
        sharing = first.setdefault(recipe.key, recipe.adapter)
        if sharing != recipe.adapter:
            context.display(recipe).share(sharing)
        elif context.only_collects:
            context.display(recipe).announce()
        if not context.only_collects:
            trained[recipe.adapter] = trained[sharing] if sharing in trained else _train(recipe, context)
    return trained


def _train(recipe: Recipe, context: AdapterContext) -> TrainedAdapter:
    display, emit = context.display(recipe), context.shared.emit
    try:
        with context.shared.queues.listening(display.pause):
            trained, is_new = train_or_load(
                recipe,
                context.adapters_folder,
                git=git_commit(context.root),
                begin=display.begin,
                wait=display.wait,
                resume=display.resume,
                lose=display.lose,
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
