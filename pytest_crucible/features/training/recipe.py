"""Recipes: functions that train adapters of a base model, with all that decides the weights; and the adapters they have made."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_crucible.backends.lineages import TrainedAdapter, read_lineage, read_step, step_folder, write_lineage
from pytest_crucible.features.training.log import SAVE_EVERY, SaveWeights, TrainingLog, summarise_training
from pytest_crucible.local_model.checkpoints import LoraSpec
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Emit, Event, Lineage
from pytest_crucible.records.errors import SpecError, UnknownSetting, suggest
from pytest_crucible.records.files import hash_file, is_locked
from pytest_crucible.records.function_source import sources

if TYPE_CHECKING:
    from pytest_crucible.features.training.tinker_trainer import ServiceBase
    from pytest_crucible.features.training.trainer import EmbeddedBase

    Base: TypeAlias = EmbeddedBase | ServiceBase


# Hexadecimal digits: 64 bits tell all trainings of a project apart, and make a short folder name.
KEY_LENGTH = 16
FAIL, RESUME = "fail", "resume"
FORMAT = 2
"""Part of every key; raise it when a change of this package makes the same recipe produce other weights."""


@dataclass(frozen=True)
class Recipe:
    """The way to make one adapter."""

    adapter: str
    """The adapter's name in the configuration."""
    name: str
    """module:function"""
    function: Callable[..., object]
    base: Base
    spec: LoraSpec
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    """The function's keywords after the trainer."""

    declared: Mapping[str, str] = field(default_factory=dict)
    """Name -> SHA-256 of the files that the adapter's `trained_on` declares."""
    save_every: int = SAVE_EVERY
    """Steps between two saved states, from which an interrupted training continues; 0 for none."""
    on_lost: str = FAIL
    """What follows when a service loses the training: `RESUME` continues from the last saved state."""
    at: int | None = None
    """The step whose weights the adapter has, among those that the recipe keeps; None for its end."""

    find_version: Callable[[str], str] = field(default=str, compare=False)
    """Returns the path of a registered version's weights, such as those of `claims@1`; other texts unchanged. Raises SpecError."""

    @cached_property
    def sha256(self) -> str:
        return hash_function(self.function)

    @cached_property
    def key(self) -> str:
        """The key under which a training is stored: adapters that differ in `at` alone share one."""
        parts = [FORMAT, self.base.identity, self.sha256, asdict(self.spec)]
        # Adapters that were trained without them keep their keys.
        parts += [sorted(self.hyperparameters.items())] if self.hyperparameters else []
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:KEY_LENGTH]

    @property
    def identity(self) -> str:
        """A text that differs between the adapters of one training, too."""
        return self.key if self.at is None else f"{self.key} at {self.at}"

    @property
    def folder(self) -> Path:
        return Path(inspect.getsourcefile(inspect.unwrap(self.function)) or ".").resolve().parent


def hash_function(function: Callable[..., object]) -> str:
    """Return the SHA-256 of a function's source and of all that it reads, through the user's own functions."""
    return hashlib.sha256("\n".join(sources(function)).encode()).hexdigest()


def find_recipe(adapter: str, base: Base, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe of an adapter with these options.

    `recipe` is "module:function", `hyperparameters` are the function's keywords, `lora` has the fields of LoraSpec except the
    seed, and `at` is a step that the recipe keeps. Raises SpecError for a function that cannot be imported, and invalid settings.
    """
    name, keywords = options["recipe"], options.get("hyperparameters", {})
    at, save_every = options.get("at"), options.get("save_every", SAVE_EVERY)
    on_lost = options.get("on_lost_training", FAIL)
    function = find_function(adapter, name)
    _check_keywords(adapter, name, function, keywords)
    if at is not None and (isinstance(at, bool) or not isinstance(at, int) or at < 1):
        raise SpecError(f"adapter {adapter!r} has at = {at!r}: write the number of a step, such as at = 30")
    if isinstance(save_every, bool) or not isinstance(save_every, int) or save_every < 0:
        raise SpecError(f"adapter {adapter!r} has save_every = {save_every!r}: write a number of steps, 0 for never")
    if on_lost not in (FAIL, RESUME):
        raise SpecError(f"adapter {adapter!r} has on_lost_training = {on_lost!r}: write {RESUME!r} or {FAIL!r}")
    if on_lost == RESUME and save_every == 0:
        raise SpecError(
            f"adapter {adapter!r} has on_lost_training = {RESUME!r} and save_every = 0, which leaves no state to resume from: "
            "raise save_every"
        )
    spec = _spec(adapter, options.get("lora") or {}, options.get("seed", 0))
    return Recipe(adapter, str(name), function, base, spec, keywords, at=at, save_every=save_every, on_lost=on_lost)


def _check_keywords(adapter: str, name: Any, function: Callable[..., object], keywords: Any) -> None:
    """Raise SpecError unless the function takes each of the hyperparameters."""
    if not isinstance(keywords, Mapping):
        raise SpecError(f"adapter {adapter!r} has hyperparameters = {keywords!r}: write {{ steps = 90 }}")
    # The first argument is the trainer.
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    names = [parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY]
    unknown = next((keyword for keyword in keywords if keyword not in names), None)
    if unknown is not None:
        takes = f"use {' or '.join(names)}" if names else f"add it, as in def train(trainer, {unknown}=...)"
        rest = f", but recipe {name!r} has no argument {unknown!r}: {takes}"
        raise UnknownSetting(adapter, f"hyperparameters.{unknown}", rest)


def find_function(adapter: str, name: Any) -> Callable[..., object]:
    """Import "module:function". Raises SpecError for a missing one, and for an object that is not a plain function."""
    module, _, attribute = str(name).partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # importing runs the module, which may raise anything
        raise SpecError(
            f"adapter {adapter!r} has recipe {name!r}, which cannot be imported ({type(error).__name__}: {error}): "
            "write 'module:function' of a module on the path"
        ) from error
    if not inspect.isfunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(function):
        raise SpecError(
            f"adapter {adapter!r} has recipe {name!r}, which is not a plain function: write one that takes a trainer"
        )
    return function  # type: ignore[no-any-return]  # isfunction has checked it


def _spec(adapter: str, lora: Any, seed: Any) -> LoraSpec:
    settings = asdict(LoraSpec())
    del settings["seed"]
    takes = f"lora takes {', '.join(settings)}"
    if not isinstance(lora, Mapping):
        raise SpecError(f"adapter {adapter!r} has lora = {lora!r}: write {{ rank = 8 }}; {takes}")
    if unknown := sorted(set(lora) - set(settings)):
        hint = suggest(f"lora.{unknown[0]}", [f"lora.{name}" for name in settings], always=takes)
        raise UnknownSetting(adapter, f"lora.{unknown[0]}", f", which no LoRA adapter has: {hint}")
    wrongs = [name for name, value in lora.items() if type(value) is not type(settings[name])]
    if wrongs or type(seed) is not int:
        name, value = (wrongs[0], lora[wrongs[0]]) if wrongs else ("seed", seed)
        raise SpecError(
            f"adapter {adapter!r} has {name} = {value!r}: write rank and seed as whole numbers, the others as true or false"
        )
    try:
        return LoraSpec(**lora, seed=seed)
    except ValueError as error:
        raise SpecError(f"adapter {adapter!r} cannot be trained: {error}") from None


def write_steps(folder: Path, saves: Mapping[int, SaveWeights], log: TrainingLog, lineage: Lineage) -> None:
    """Write the kept steps of a training that has this log and lineage."""
    for step, save in saves.items():
        place = step_folder(folder, step)
        place.mkdir()
        losses, norms = log.losses[:step], log.gradient_norms[:step]
        until_then = replace(
            lineage,
            step=step,
            # Also of a training that stopped later.
            stopped=None,
            result=summarise_training(losses, norms),
            losses=tuple(losses),
            gradient_norms=tuple(norms),
            learning_rates=tuple(log.learning_rates[:step]),
            seconds=round(sum(log.seconds[:step]), 3),
        )
        write_lineage(place, replace(until_then, **asdict(save(place))))


# The end of the name of a directory with the last good weights of a training that stopped.
STOPPED = "stopped"


def find_trained(recipe: Recipe, folder: Path) -> TrainedAdapter | None:
    """Return the adapter that the recipe has made; None if base, recipe, settings or data have changed since."""
    for folder_of_adapter in sorted(folder.glob(f"{recipe.key}-*")):
        lineage = read_lineage(folder_of_adapter)
        if lineage is None or not _is_valid(lineage, recipe.folder):
            continue
        trained = TrainedAdapter(folder_of_adapter, lineage)
        if _has_weights(recipe, trained):
            return trained
    return None


def find_damaged(recipe: Recipe, folder: Path) -> Path | None:
    """Return a directory of the recipe's adapter whose weights are not those that its lineage describes; None without one."""
    for folder_of_adapter in sorted(folder.glob(f"{recipe.key}-*")):
        if folder_of_adapter.name.endswith(STOPPED):
            continue
        lineage = read_lineage(folder_of_adapter)
        if lineage is None:
            return folder_of_adapter
        at = recipe.at
        if at is not None and at in lineage.kept and read_step(folder_of_adapter, at) is None:
            return step_folder(folder_of_adapter, at)
    return None


def _has_weights(recipe: Recipe, trained: TrainedAdapter) -> bool:
    """Return whether the weights at the end of a training, and those of the recipe's step, still exist."""
    lineages: list[Lineage | None] = [trained.lineage]
    if recipe.at is not None and recipe.at in trained.lineage.kept:
        lineages.append(read_step(trained.path, recipe.at))
    return all(lineage is not None and recipe.base.holds(lineage) for lineage in lineages)


def _is_valid(lineage: Lineage, folder: Path) -> bool:
    """Return whether a training is complete and its data files are unchanged."""
    try:
        return lineage.stopped is None and all(
            hash_file(folder / name) == sha256 for name, sha256 in lineage.data.items()
        )
    except OSError:
        return False


def emit_step(log: TrainingLog, emit: Emit, adapter: str) -> None:
    seconds = log.seconds[-1]
    facts = {
        "step": len(log.losses),
        "loss": log.losses[-1],
        "gradient_norm": log.gradient_norms[-1],
        "learning_rate": log.learning_rates[-1],
        "tokens": log.tokens[-1],
        "tokens_per_s": log.tokens[-1] / seconds if seconds > 0 else None,
    }
    if log.policy and log.policy[-1] is not None:
        facts["samples"], facts["advantage"] = log.policy[-1]
    emit(Event(name="train.step", at=time.time(), seconds=seconds, arm=adapter, facts=facts))


def emit_checkpoint(emit: Emit, trained: TrainedAdapter, adapter: str, planned_steps: int | None = None) -> None:
    lineage = trained.lineage
    facts = {
        **({} if planned_steps is None else {"planned_steps": planned_steps}),
        "path": lineage.checkpoint or str(trained.path),
        "sha256": lineage.adapter_sha256,
        "recipe": lineage.recipe,
        "steps": lineage.result.training_steps,
        "final_loss": lineage.result.final_loss,
    }
    emit(Event(name="checkpoint", at=time.time(), seconds=lineage.seconds, arm=adapter, facts=facts))


def find_unfinished(folder: Path, before: float) -> dict[Path, int]:
    """Return the states of interrupted trainings, with their bytes on disk; states on a service are not counted.

    Only those whose newest state was saved before a time, in seconds since 1970, and that no process runs.
    """
    unfinished: dict[Path, int] = {}
    for home in sorted(filter(Path.is_dir, folder.glob(".unfinished-*"))):
        paths = list(home.rglob("*"))
        # The newest file, because a training that goes on replaces its states.
        saved_at = max(path.stat().st_mtime for path in (home, *paths))
        if saved_at < before and not is_locked(folder / f"{home.name.removeprefix('.unfinished-')}.lock"):
            unfinished[home] = sum(path.stat().st_size for path in paths if path.is_file())
    return unfinished
