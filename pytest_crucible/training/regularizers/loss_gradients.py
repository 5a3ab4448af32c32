"""A regularizer of the loss's own gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens
from pytest_crucible.training.regularizers.term import Term, Weighted


@dataclass(frozen=True)
class GradientPenalty(Weighted):
    """(norm - target_norm)^2, the norm being that of the loss's derivatives by the log-probabilities of a batch.

    After Gulrajani et al. 2017, "Improved training of Wasserstein GANs", equation 3, taken at the batch itself. The derivatives
    of cross_entropy and cispo do not depend on the log-probabilities, so that it could change nothing: they are refused.
    """

    target_norm: float = 1.0
    name: ClassVar[str] = "gradient_penalty"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.target_norm) and self.target_norm >= 0):
            raise ValueError(f"{self.name} has target_norm = {self.target_norm!r}: write a number of at least 0")

    def evaluate(self, tokens: ReplyTokens) -> Term:
        gradient = tokens.loss_gradient
        norm = float(np.linalg.norm(gradient.slopes))
        excess = norm - self.target_norm
        # At 0 a norm has no derivative; 0 is one of its subgradients.
        along = gradient.slopes * gradient.curvatures / norm if norm else np.zeros_like(gradient.slopes)
        return Term(excess * excess, 2 * excess * along)
