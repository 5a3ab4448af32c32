"""The weights of an adapter in training, as each base holds them: in this process, or on a service."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from pytest_crucible.local_model.adam import AdamParams
from pytest_crucible.local_model.training import GradientResult
from pytest_crucible.training.passes import Pass
from pytest_crucible.training.saved_training import SavedTraining
from pytest_crucible.training.saved_weights import SavedWeights, SaveWeights


class AdapterWeights(ABC):
    """Everything in which trainers of different bases differ."""

    @abstractmethod
    def _sampler(self) -> Any:
        """Return a sampler of the current adapter."""

    @abstractmethod
    def save(self, folder: Path) -> SavedWeights:
        """Save the adapter; after a failed step, the last good one. Files are written to the folder."""

    @abstractmethod
    def _keep(self, step: int) -> SaveWeights:
        """Keep the current weights, which later steps do not change; return the function that saves them."""

    @abstractmethod
    def _pass(self, batch: Pass) -> GradientResult:
        """Return loss and outputs of a batch. Raises ValueError for invalid data, NotFinite for a loss that is not finite."""

    @abstractmethod
    def _move(self, params: AdamParams) -> dict[str, float]:
        """Make a step. Raises ValueError without gradients, NotFinite for weights that are not finite."""

    @abstractmethod
    def _remember(self) -> None:
        """Remember the current weights, whose loss was finite."""

    @abstractmethod
    def _load(self, checkpoint: str | Path) -> str:
        """Load the weights of a checkpoint; return its name in the lineage."""

    @abstractmethod
    def _save_state(self, folder: Path) -> str:
        """Save adapter and optimiser: in the folder, or on a service, whose path is returned."""

    @abstractmethod
    def _load_state(self, saved: SavedTraining) -> None:
        """Load adapter and optimiser."""

    @abstractmethod
    def _restore_kept(self, saved: SavedTraining, step: int) -> SaveWeights:
        """Return the function that saves the weights of a step that was kept before an interruption."""
