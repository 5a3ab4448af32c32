"""What is written down of a training while it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class TrainingStopped(ValueError):
    """A step that could not be made: a loss or weights that are not finite, or data that mean nothing."""


@dataclass
class Log:
    """What every step did."""

    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float | None] = field(default_factory=list)
    """None of a step whose service does not tell."""
    learning_rates: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    """Read by each step, prompts included."""
    seconds: list[float] = field(default_factory=list)
    """That each step took, from its first batch on."""
    settings: dict[str, set[Any]] = field(default_factory=dict)
    finite: bool = True
    """False once a loss, a gradient or the weights were not."""

    def note(self, name: str, value: Any) -> None:
        """A setting that was used; steps may use different ones."""
        self.settings.setdefault(name, set()).add(value)
