"""The weights of an adapter, which the registry keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_crucible.records import Lineage


@dataclass(frozen=True)
class Weights:
    """The files and folders on this machine from which an adapter replies."""

    files: Mapping[str, Path] = field(default_factory=dict)
    """Option of the adapter -> the file that it names."""
    lineage: Lineage | None = None
