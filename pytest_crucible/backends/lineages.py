"""The lineage of trained weights: `lineage.json` in the same directory, which identifies them by their SHA-256."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pytest_crucible.local_model.checkpoints import SAMPLER_FILE
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records import Lineage
from pytest_crucible.records.serialize import from_plain, to_plain

LINEAGE_FILE = "lineage.json"


def write_lineage(folder: Path, lineage: Lineage) -> None:
    """Write the lineage beside the weights."""
    (folder / LINEAGE_FILE).write_text(json.dumps(to_plain(lineage), indent=1) + "\n", encoding="utf-8")


def read_lineage(place: Path) -> Lineage | None:
    """Return the lineage of the weights in a file or a directory of a trained adapter; None if it is of other weights."""
    weights = place / SAMPLER_FILE if place.is_dir() else place
    lineage = read_lineage_file(weights.parent)
    if lineage is None:
        return None
    if lineage.checkpoint or lineage.state:
        return lineage if place.is_dir() else None
    try:
        with weights.open("rb") as file:
            # A file may have been replaced since: the digest proves that the lineage is of these weights.
            same = hashlib.file_digest(file, "sha256").hexdigest() == lineage.adapter_sha256
    except OSError:
        return None
    return lineage if same else None


def read_lineage_file(folder: Path) -> Lineage | None:
    """Return the lineage in a directory, without a look at the weights beside it; None if there is none."""
    try:
        return from_plain(Lineage, json.loads((folder / LINEAGE_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


@dataclass(frozen=True)
class TrainedAdapter:
    """A trained adapter: its directory and its lineage."""

    path: Path
    lineage: Lineage


def step_folder(folder: Path, step: int) -> Path:
    """Return the directory of a step within that of its training."""
    return folder / f"step-{step}"


def read_step(folder: Path, step: int) -> Lineage | None:
    """Return the lineage of a kept step; None if it is damaged."""
    return read_lineage(step_folder(folder, step))


def trained_places(folder: Path) -> list[Path]:
    """Return what may be the directory of an adapter that was trained here, or of a step that its recipe kept."""
    return [*folder.glob("*"), *folder.glob("*/step-*")]


def trained_adapters(folder: Path) -> list[TrainedAdapter]:
    """Return all adapters that were trained here, kept steps too, the newest first."""
    places = trained_places(folder)
    adapters = [TrainedAdapter(path, lineage) for path in places if (lineage := read_lineage(path)) is not None]
    return sorted(adapters, key=lambda adapter: (adapter.path / LINEAGE_FILE).stat().st_mtime_ns, reverse=True)


def find_lineage(folder: Path, checkpoint: str) -> Lineage | None:
    """Return the lineage of a checkpoint of a service; None where no training in this folder has made it."""
    lineages = (trained.lineage for trained in trained_adapters(folder))
    return next((lineage for lineage in lineages if lineage.checkpoint == checkpoint), None)
