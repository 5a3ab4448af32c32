"""The adapters that recipes have trained: found by their key while base, recipe, settings and data are unchanged.

Steps that a recipe keeps before its end are in subdirectories, each with weights and lineage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from pytest_crucible.backends.lineages import TrainedAdapter, read_lineage, read_step, step_folder, write_lineage
from pytest_crucible.features.training.log import SaveWeights, TrainingLog, summarise_training
from pytest_crucible.features.training.recipe import Recipe
from pytest_crucible.records import Emit, Event, Lineage
from pytest_crucible.records.files import hash_file, is_locked


def write_steps(folder: Path, kept: Mapping[int, SaveWeights], log: TrainingLog, lineage: Lineage) -> None:
    """Write the kept steps of a training that has this log and lineage."""
    for step, save in kept.items():
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


def emit_steps(watch: Callable[[TrainingLog], None], emit: Emit, adapter: str) -> Callable[[TrainingLog], None]:
    """Return a function that emits an event for each step, then calls `watch`."""

    def watch_and_emit(log: TrainingLog) -> None:
        emit(_step(log, adapter))
        watch(log)

    return watch_and_emit


def _step(log: TrainingLog, adapter: str) -> Event:
    seconds = log.seconds[-1]
    facts = {
        "step": len(log.losses),
        "loss": log.losses[-1],
        "gradient_norm": log.gradient_norms[-1],
        "learning_rate": log.learning_rates[-1],
        "tokens": log.tokens[-1],
        "tokens_per_s": log.tokens[-1] / seconds if seconds > 0 else None,
    }
    return Event(name="train.step", at=time.time(), seconds=seconds, arm=adapter, facts=facts)


def emit_checkpoint(emit: Emit, trained: TrainedAdapter, adapter: str, *, is_new: bool) -> None:
    """Emit an event for an adapter that was trained just now; `is_new` is False for one that was loaded."""
    if not is_new:
        return
    lineage = trained.lineage
    facts = {
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
    homes = [home for home in sorted(folder.glob(".unfinished-*")) if home.is_dir()]
    return {
        home: _size(home)
        for home in homes
        if _saved_at(home) < before and not is_locked(folder / f"{home.name.removeprefix('.unfinished-')}.lock")
    }


def _saved_at(home: Path) -> float:
    # The newest file, because a training that goes on replaces its states.
    return max(path.stat().st_mtime for path in (home, *home.rglob("*")))


def _size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
