"""Folders in which the weights of a training are saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SavedWeights:
    """The place of an adapter's weights: a file with this hash, or a checkpoint and a state on a service."""

    adapter_sha256: str = ""
    checkpoint: str = ""
    state: str = ""


SaveWeights = Callable[[Path], SavedWeights]
"""Saves weights; files are written to the folder."""
