"""The log of a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class TrainingStopped(ValueError):
    """A step failed: a loss or weights that are not finite, or invalid data."""


class TrainingLost(TrainingStopped):
    """The service that trains is gone, or has lost the training."""


@dataclass
class TrainingLog:
    """Losses, norms, rates and times of all steps."""

    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float | None] = field(default_factory=list)
    """None for a step whose service does not report it."""
    learning_rates: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Tokens read by each step, prompts included."""
    seconds: list[float] = field(default_factory=list)
    """Seconds from the first batch of each step to its end."""
    settings: dict[str, set[Any]] = field(default_factory=dict)
    passes: list[list[tuple[str, float]]] = field(default_factory=list)
    """Digest and loss of each batch, for each step."""
    finite: bool = True
    """False after a loss, a gradient or a weight that was not finite."""

    def note(self, name: str, value: Any) -> None:
        """Record a setting; steps may use different values."""
        self.settings.setdefault(name, set()).add(value)
