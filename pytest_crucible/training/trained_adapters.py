"""The adapters that recipes have trained: found by their key while base, recipe, settings and data are unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_crucible.local_model.lineages import LINEAGE_FILE, read_lineage
from pytest_crucible.records import Lineage
from pytest_crucible.training.kept_steps import read_step, step_folder
from pytest_crucible.training.recipe import Recipe
from pytest_crucible.training.tracked_reads import hash_file

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
