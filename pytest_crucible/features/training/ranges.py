"""The numbers of a training that targets can name, with the values that they can have."""

from __future__ import annotations

import math
from dataclasses import fields

from pytest_crucible.records import TrainingResult

SOURCE = "training"
_LIMITS = {
    "training_steps": (1.0, math.inf),
    "convergence_steps": (1.0, math.inf),
    "loss_reduction": (-math.inf, 1.0),
    "largest_gradient_norm": (0.0, math.inf),
    "gradient_norms_finite": (0.0, 1.0),
}
RANGES = {field.name: _LIMITS.get(field.name, (-math.inf, math.inf)) for field in fields(TrainingResult)}
"""The numbers of a training, with the lowest and the highest value that each can have."""
