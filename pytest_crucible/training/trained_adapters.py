"""The adapters that recipes have trained: found by their key while base, recipe, settings and data are unchanged.

Steps that a recipe keeps before its end are in subdirectories, each with weights and lineage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pytest_crucible.backends.lineages import LINEAGE_FILE, read_lineage, write_lineage
from pytest_crucible.records import Emit, Event, Lineage
from pytest_crucible.records.files import hash_file
from pytest_crucible.training.log import SaveWeights, TrainingLog, summarise_training
from pytest_crucible.training.recipe import Recipe


def step_folder(folder: Path, step: int) -> Path:
    """Return the directory of a step within that of its training."""
    return folder / f"step-{step}"


def read_step(folder: Path, step: int) -> Lineage | None:
    """Return the lineage of a kept step; None if it is damaged."""
    return read_lineage(step_folder(folder, step))


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


@dataclass(frozen=True)
class TrainedAdapter:
    """A trained adapter: its directory and its lineage."""

    path: Path
    lineage: Lineage


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


def trained_adapters(folder: Path) -> list[TrainedAdapter]:
    """Return all adapters that were trained here, the newest first, although their recipes may have changed since.

    Steps that their recipes kept are among them.
    """
    places = [*folder.glob("*"), *folder.glob("*/step-*")]
    adapters = [TrainedAdapter(path, lineage) for path in places if (lineage := read_lineage(path)) is not None]
    return sorted(adapters, key=lambda adapter: (adapter.path / LINEAGE_FILE).stat().st_mtime_ns, reverse=True)


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
