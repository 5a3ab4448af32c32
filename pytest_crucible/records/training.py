"""The training of an adapter: its result and its lineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingResult:
    """The numbers of a training. Losses are in nats per counted token."""

    training_steps: int
    first_loss: float
    """The loss of the first step."""
    final_loss: float
    """Mean over the last tenth of the steps, since batches differ."""
    loss_reduction: float | None
    """1 - final / first; None if the first loss is not above 0, as that of a policy may be."""
    convergence_steps: int | None
    """The first step from which the loss stays near its end; None if it is not reduced, or still changes at the end."""
    largest_gradient_norm: float | None
    """None if the training service does not report it."""
    gradient_norms_finite: bool | None
    """False when a loss, a gradient or the weights became infinite or NaN, which ends a training; None as above."""


WEIGHTS = (".safetensors", ".gguf")
"""Endings of files that hold numbers of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The lineage of a trained adapter: everything that determined its weights, and the course of its training."""

    adapter_sha256: str
    """Hash of the file next to it; empty if a service has the weights."""
    base: str
    base_sha256: str
    recipe: str
    recipe_sha256: str
    data: Mapping[str, str]
    """SHA-256 of each file that the recipe read; names count from the recipe's folder."""
    lora: Mapping[str, Any]
    seed: int
    hyperparameters: Mapping[str, Any]
    """All values that steps used of the loss, its settings, the number of rows, and Adam's settings but the learning rate."""
    git: Mapping[str, Any] | None
    parent: str | None
    """SHA-256 of the checkpoint that training continued from, or its path on a service."""
    result: TrainingResult
    losses: tuple[float, ...]
    gradient_norms: tuple[float | None, ...]
    learning_rates: tuple[float, ...]
    seconds: float
    stopped: str | None = None
    """Why training ended before its recipe did; such an adapter is used only if its path is given."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The adapter's `hyperparameters`: the keywords with which the recipe was called."""
    adapter: str = ""
    """The adapter's name in the configuration when it was trained."""
    checkpoint: str = ""
    """Path of the sampling weights on a service."""
    state: str = ""
    """Path of the state from which training can continue on a service."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each file that `trained_on` declares, by name."""
    kept: tuple[int, ...] = ()
    """The steps before the end of training whose weights were kept, each in a directory of its own with its lineage."""
    step: int | None = None
    """The step of kept weights. The losses and the result are those until then."""
    simulated: bool = False
    """True where a stand-in was trained under another model's name."""
    inherited: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 -> name of each file that the trainings before this one have read or declared."""

    @property
    def training_files(self) -> dict[str, str]:
        """SHA-256 -> name of each file that the weights were trained on: its own, those declared, and its parents'.

        Without weights that the recipe read, such as those of the adapter that it started from: they have no rows.
        """
        own = {sha256: name for names in (self.declared, self.data) for name, sha256 in names.items()}
        files = {**self.inherited, **own}
        return {sha256: name for sha256, name in files.items() if not name.endswith(WEIGHTS)}
