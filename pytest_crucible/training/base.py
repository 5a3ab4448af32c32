"""What a recipe trains an adapter of: the embedded model, or one of a Tinker service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pytest_crucible.embedded.lora import LoraSpec
from pytest_crucible.records import Lineage
from pytest_crucible.training.log import Log

if TYPE_CHECKING:
    from pytest_crucible.training.trainer import RecipeTrainer

Watch = Callable[[Log], None]


class Base(Protocol):
    """A model without an adapter."""

    @property
    def name(self) -> str:
        """As the lineage of an adapter says it."""
        ...

    @property
    def words(self) -> str:
        """As a line on the terminal says it."""
        ...

    @property
    def identity(self) -> str:
        """Tells it from every other base, and is the same on the next day."""
        ...

    @property
    def sha256(self) -> str:
        """Of its weights; empty where nobody tells."""
        ...

    def trainer(self, adapter: str, spec: LoraSpec, *, folder: Path, watch: Watch) -> RecipeTrainer:
        """A new adapter in training. `folder` is where relative paths of data begin; `watch` is told after each step."""
        ...

    def holds(self, lineage: Lineage) -> bool:
        """Whether the weights of an adapter that was trained before are still there."""
        ...
