"""The base models that recipes train adapters of: the embedded model, or one of a Tinker service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_crucible.local_model.lora import LoraSpec
from pytest_crucible.records import Lineage
from pytest_crucible.training.log import TrainingLog

if TYPE_CHECKING:
    from pytest_crucible.training.trainer import RecipeTrainer

Watch = Callable[[TrainingLog], None]


class Base(Protocol):
    """A model without an adapter."""

    @property
    def name(self) -> str:
        """The name in the lineage of an adapter."""
        ...

    @property
    def words(self) -> str:
        """The description on the terminal."""
        ...

    @property
    def identity(self) -> str:
        """A text that differs between bases and never changes for one base."""
        ...

    @property
    def sha256(self) -> str:
        """The SHA-256 of the weights; empty if the service does not report one."""
        ...

    @property
    def simulated(self) -> bool:
        """True where another model is trained under this one's name, on a local server."""
        ...

    @property
    def is_recovered(self) -> bool:
        """True once the service was lost and opened again: its other clients have to be opened again, too."""
        ...

    def trainer(self, adapter: str, spec: LoraSpec, *, folder: Path, watch: Watch) -> RecipeTrainer:
        """Return a trainer of a new adapter. Paths of data are relative to `folder`; `watch` is called after each step."""
        ...

    def recover(self, wait_s: float) -> None:
        """Open the service again after it was lost, waiting at most some seconds. Raises SpecError if it does not come back."""
        ...

    def holds_state(self, path: str) -> bool:
        """Return whether a saved state, which a service names by a path, still exists."""
        ...

    def holds(self, lineage: Lineage) -> bool:
        """Return whether the weights of an adapter that was trained before still exist."""
        ...
