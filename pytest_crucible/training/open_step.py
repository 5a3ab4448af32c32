"""The current step of a trainer: the sums over its batches, until the adapter moves."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field

from pytest_crucible.local_model.adam import AdamParams
from pytest_crucible.training.log import TrainingLog


@dataclass
class OpenStep:
    """The batches since the last step."""

    began: float | None = None
    """When the first batch began, by `time.perf_counter`; None before it."""
    loss: float = 0.0
    counted: float = 0.0
    """Tokens that count in the loss, or preferences."""
    tokens: int = 0
    passes: list[tuple[str, float]] = field(default_factory=list)
    """The digest of each batch, and its loss."""

    def begin(self) -> None:
        """Start the clock, unless an earlier batch of the step has."""
        self.began = self.began or time.perf_counter()

    def add(self, digest: str, loss: float, counted: float, tokens: int) -> None:
        """Add a batch."""
        self.passes.append((digest, loss))
        self.loss += loss
        self.counted += counted
        self.tokens += tokens

    def write(self, log: TrainingLog, norm: float | None, params: AdamParams) -> None:
        """Append the step to the log, with the norm of its gradients if that is known."""
        log.losses.append(self.loss / self.counted if self.counted else self.loss)
        # NaN cannot be compared with a target: it counts as not reported.
        log.gradient_norms.append(None if norm is None or math.isnan(norm) else float(norm))
        log.tokens.append(self.tokens)
        log.passes.append(self.passes)
        now = time.perf_counter()
        log.seconds.append(now - (self.began or now))
        settings = asdict(params)
        log.learning_rates.append(float(settings.pop("learning_rate")))
        for name, value in settings.items():
            log.note(name, value)
