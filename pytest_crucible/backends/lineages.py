"""The lineage of trained weights: `lineage.json` in the same directory, which identifies them by their SHA-256."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pytest_crucible.local_model.checkpoints import SAMPLER_FILE
from pytest_crucible.records import Lineage
from pytest_crucible.records.serialize import from_plain, to_plain

LINEAGE_FILE = "lineage.json"


def write_lineage(folder: Path, lineage: Lineage) -> None:
    """Write the lineage beside the weights."""
    (folder / LINEAGE_FILE).write_text(json.dumps(to_plain(lineage), indent=1) + "\n", encoding="utf-8")


def read_lineage(place: Path) -> Lineage | None:
    """Return the lineage of the weights in a file, or in the directory of a trained adapter.

    None without a lineage, and where it belongs to other weights. Weights that a service holds have only their lineage
    here.
    """
    weights = place / SAMPLER_FILE if place.is_dir() else place
    try:
        lineage = from_plain(Lineage, json.loads((weights.parent / LINEAGE_FILE).read_text(encoding="utf-8")))
        if lineage.checkpoint or lineage.state:
            return lineage if place.is_dir() else None
        with weights.open("rb") as file:
            # A file may have been replaced since: the digest proves that the lineage is of these weights.
            same = hashlib.file_digest(file, "sha256").hexdigest() == lineage.adapter_sha256
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return lineage if same else None
