"""Adapters that a recipe trains: reused if they are trained already, otherwise trained before sampling begins."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_crucible.adapters.adapter_kind import Origin, shorten_path
from pytest_crucible.adapters.context import AdapterContext, ProgressLines
from pytest_crucible.adapters.feature_rows import Pending, Preparation, find_training_start
from pytest_crucible.adapters.opened_arm import hash_declared_files
from pytest_crucible.backends.lineages import TrainedAdapter, read_step, step_folder, trained_adapters
from pytest_crucible.features.training.adapter_store import train_or_load
from pytest_crucible.features.training.log import TrainingLog
from pytest_crucible.features.training.recipe import (
    Recipe,
    emit_checkpoint,
    emit_step,
    find_damaged,
    find_function,
    find_recipe,
    find_trained,
    hash_function,
)
from pytest_crucible.features.training.trainer import open_local_base
from pytest_crucible.records import Adapter, Lineage
from pytest_crucible.records.errors import CrucibleError, SpecError
from pytest_crucible.records.files import git_commit
from pytest_crucible.stats.number_format import quantity

MADE_WITH = ("recipe", "lora", "seed", "hyperparameters", "at", "save_every", "on_lost_training")
"""Options that only a training uses."""


class Untrained(Pending):
    """A placeholder for an adapter whose recipe has not been run yet."""

    def __init__(self, recipe: Recipe, preparation: Preparation, damaged: Path | None = None) -> None:
        """`damaged` is a directory with the remains of the adapter."""
        # Two adapters with one recipe would be one checkpoint, and comparing them is refused.
        super().__init__(recipe.adapter, recipe.identity, preparation)
        self.recipe, self.damaged = recipe, damaged

    @property
    def needs_reopening(self) -> bool:
        return self.recipe.base.is_recovered


def open_trained(
    adapter: Adapter, context: AdapterContext, preparation: Preparation, trained: TrainedAdapter | None
) -> Adapter | Untrained:
    """Return the adapter with the checkpoint of its recipe, or a placeholder. `trained` is its training in this session."""
    recipe = read_recipe(adapter, context)
    trained = trained or find_trained(recipe, context.adapters_folder)
    if trained is None:
        return Untrained(recipe, preparation, find_damaged(recipe, context.adapters_folder))
    return with_checkpoint(adapter, trained)


def read_recipe(adapter: Adapter, context: AdapterContext) -> Recipe:
    """Return the recipe that an adapter names. Raises SpecError for an invalid one."""
    return replace(
        find_recipe(adapter.name, _open_base(adapter, context), adapter.options),
        declared=hash_declared_files(adapter, context.root),
        find_version=lambda name: find_training_start(name, context),
    )


def _open_base(adapter: Adapter, context: AdapterContext) -> Any:
    if adapter.backend == "local":
        return open_local_base(adapter, context)
    # The import loads the parts of the SDK's client, which adapters of the embedded model do not need.
    from pytest_crucible.features.training.tinker_trainer import open_service_base

    return open_service_base(adapter, context)


def find_origin(adapter: Adapter, context: AdapterContext) -> Origin:
    """Return the recipe and its data, and the session's service if it trains. Raises SpecError."""
    if adapter.backend == "local":
        recipe = read_recipe(adapter, context)
        trained = find_trained(recipe, context.adapters_folder)
        identity: tuple[Any, ...] = (recipe.identity,)
        data = {} if trained is None else trained.lineage.data
    else:
        # The recipe's key would need the base, and so the service: its function alone recognises it.
        function = hash_function(find_function(adapter.name, adapter.options["recipe"]))
        identity = (function, context.settings.tinker, context.settings.tinker_base)
        lineages = (trained.lineage for trained in trained_adapters(context.adapters_folder))
        data_of_recipe = (each.data for each in lineages if each.checkpoint and each.recipe_sha256 == function)
        data = next(data_of_recipe, {})
    return Origin(identity, {shorten_path(Path(name), context.root): sha256 for name, sha256 in data.items()})


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


def _explain_step(adapter: Adapter, step: int, saved_steps: Sequence[int], last: int) -> str:
    before = [str(number) for number in saved_steps if number != last]
    steps = (
        f"kept step{'s' * (len(before) > 1)} {', '.join(before)} and its last, {last}"
        if before
        else f"kept its last step, {last}"
    )
    use = "use one of them" if before else f"use at = {last}"
    more = f", or call trainer.checkpoint({step}) in it" if step < last else ""
    return f"adapter {adapter.name!r} has at = {step}, but recipe {adapter.options['recipe']!r} {steps}: {use}{more}"


def train_pending(pending: Sequence[Pending], context: AdapterContext) -> dict[str, TrainedAdapter]:
    """Run recipes, one after the other; return the adapters by name. Raises SpecError when a training fails.

    Adapters that differ in `at`, or in their sampling, share one training. Under --collect-only nothing is trained: what would
    be is shown.
    """
    trained: dict[str, TrainedAdapter] = {}
    first: dict[str, str] = {}
    # One after the other, so that there is one line of progress at a time.
    for recipe in find_recipes(pending):
        sharing = first.setdefault(recipe.key, recipe.adapter)
        if sharing != recipe.adapter:
            TrainingProgress(recipe, context.progress).share(sharing)
        elif context.only_collects:
            TrainingProgress(recipe, context.progress).announce()
        if not context.only_collects:
            trained[recipe.adapter] = trained[sharing] if sharing in trained else _train(recipe, context)
    return trained


def _train(recipe: Recipe, context: AdapterContext) -> TrainedAdapter:
    display, emit = TrainingProgress(recipe, context.progress), context.shared.emit
    planned_steps: int | None = None

    def watch(log: TrainingLog) -> None:
        nonlocal planned_steps
        planned_steps = log.planned_steps
        emit_step(log, emit, recipe.adapter)
        display.show_step(log)

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
                watch=watch,
                session=context.run,
                hide=context.hide,
            )
    except BaseException as error:  # also an interrupt leaves a line of progress to be cleared
        display.fail(error)
        raise
    if is_new:
        emit_checkpoint(emit, trained, recipe.adapter, planned_steps)
    place = trained.lineage.checkpoint or shorten_path(trained.path, context.invocation_folder)
    display.finish(trained.lineage, place, is_new=is_new)
    return trained


def find_recipes(pending: Sequence[Pending]) -> list[Recipe]:
    return [adapter.recipe for adapter in pending if isinstance(adapter, Untrained)]


def explain_missing(pending: Sequence[Pending]) -> list[str]:
    """Return a sentence on the adapters that have to be trained, and one on each whose checkpoint is damaged."""
    untrained = [adapter for adapter in pending if isinstance(adapter, Untrained)]
    sentences = [
        f"adapter {adapter.adapter!r} cannot be loaded: its checkpoint {str(adapter.damaged)!r} is damaged (its weights are "
        "not those that its lineage describes): restore it, or train it again with --crucible-train"
        for adapter in untrained
        if adapter.damaged is not None
    ]
    recipes = [adapter.recipe for adapter in untrained if adapter.damaged is None]
    if not recipes:
        return sentences
    adapters, names = (" and ".join(repr(getattr(recipe, name)) for recipe in recipes) for name in ("adapter", "name"))
    if len(recipes) == 1:
        sentence = (
            f"adapter {adapters} is not trained with recipe {names}, its data and its base as they are now: train it"
        )
    else:
        sentence = f"adapters {adapters} are not trained with recipes {names}, their data and bases as they are now: train them"
    return [*sentences, f"{sentence} with --crucible-train"]


# Where a line cannot be overwritten, as in a CI log, each update adds a line: an hour of training adds at most 360.
LINE_S = 10.0
# On a terminal the line is overwritten; more updates a second could not be read.
REWRITE_S = 0.1


class TrainingProgress:
    """Shows one training. When several workers need one adapter, the worker that trains it writes; the others wait silently."""

    def __init__(self, recipe: Recipe, lines: ProgressLines) -> None:
        self._lines = lines
        self._name = recipe.adapter
        self._began = self._shown_at = time.perf_counter()
        self._description = (
            f"{recipe.adapter} with {recipe.name}: LoRA of rank {recipe.spec.rank}, seed {recipe.spec.seed}, "
            f"{recipe.base.words}"
        )

    def announce(self) -> None:
        self._lines.write(f"would train {self._description}")

    def share(self, name: str) -> None:
        """Show that the adapter reuses the training of the adapter `name`; workers of xdist do not show it."""
        if not self._lines.is_worker:
            self._lines.write(f"{self._name} uses the training of {name}")

    def begin(self) -> None:
        self._began = self._shown_at = time.perf_counter()
        self._lines.write(f"training {self._description}")

    def resume(self, step: int) -> None:
        self._lines.write(f"{self._name} continues after step {step} of a training that was interrupted")

    def lose(self, reason: str) -> None:
        """Show that the training was lost, and waits for its service."""
        self._lines.write(f"{self._name} was lost: {reason}; waiting for the service")

    def wait(self) -> None:
        if not self._lines.is_worker:
            self._lines.write(f"{self._name} is being trained by another process: waiting for it")

    def pause(self, cause: str) -> None:
        """Write why the service does not train now."""
        self._lines.write(f"{self._name} waits: {cause}")

    def show_step(self, log: TrainingLog) -> None:
        """Write a line of progress, not more often than a reader can follow."""
        now = time.perf_counter()
        if now - self._shown_at < (REWRITE_S if self._lines.is_watched else LINE_S):
            return
        self._shown_at, steps = now, len(log.losses)
        line = (
            f"{self._name}  step {steps:,}  loss {log.losses[-1]:.3g}  {_seconds((now - self._began) / steps)} a step"
        )
        if self._lines.is_watched:
            self._lines.overwrite(line)
        else:
            self._lines.write(line)

    def finish(self, lineage: Lineage, place: str, *, is_new: bool) -> None:
        """Write the result; for an adapter that another process has trained, only that it exists."""
        self._lines.overwrite("")
        result = lineage.result
        if not is_new:
            if not self._lines.is_worker:
                self._lines.write(f"{self._name} was trained by another process")
            return
        reduced = "" if result.loss_reduction is None else f" (reduced by {result.loss_reduction * 100:.1f} %)"
        norm = result.largest_gradient_norm
        norms = "" if norm is None else f", gradient norms up to {norm:.3g}"
        more = f"{norms}; kept in {place}" * (self._lines.verbosity > 0)
        self._lines.write(
            f"trained {self._name}: {quantity(result.training_steps, 'step')} in {_seconds(lineage.seconds)}, "
            f"loss {result.first_loss:.3g} to {result.final_loss:.3g}{reduced}{more}"
        )

    def fail(self, error: BaseException) -> None:
        """Clear the line of progress; with -v, write the traceback of an exception in the recipe."""
        self._lines.overwrite("")
        cause = error.__cause__
        if self._lines.verbosity > 0 and cause is not None and not isinstance(cause, CrucibleError):
            # The first frame is this package's call of the recipe.
            own = cause.__traceback__ and cause.__traceback__.tb_next
            self._lines.write("".join(traceback.format_exception(type(cause), cause, own)).rstrip())


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"
