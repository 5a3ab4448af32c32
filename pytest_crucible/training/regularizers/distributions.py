"""Regularizers of how sure the model is, and of how far it moves from a reference.

Entropy and divergence are sums over a whole vocabulary, of which a service returns the target alone. These are the targets' own
parts of those sums: with p the probability of a target, and q that under the reference, -p log p and p log(p / q).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens
from pytest_crucible.training.regularizers.term import Array, Term, Weighted, check_choice


@dataclass(frozen=True)
class Entropy(Weighted):
    """H = sum -p log p, which is added to the loss to minimise it, and subtracted to maximise it."""

    mode: Literal["maximise", "minimise"]
    name: ClassVar[str] = "entropy"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "mode", self.mode, ("maximise", "minimise"))

    def evaluate(self, tokens: ReplyTokens) -> Term:
        logprobs, sign = tokens.logprobs, 1.0 if self.mode == "minimise" else -1.0
        probabilities = np.exp(logprobs)
        return Term(sign * -float(probabilities @ logprobs), sign * -probabilities * (1 + logprobs))


@dataclass(frozen=True)
class KLDivergence(Weighted):
    """Forward sum p log(p / q), reverse sum q log(q / p), or symmetric, the mean of both.

    Forward holds back tokens that become more probable than under the reference, reverse those that become less probable. The
    rows come from `trainer.with_reference(data)`.
    """

    direction: Literal["forward", "reverse", "symmetric"] = "forward"
    name: ClassVar[str] = "kl_divergence"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "direction", self.direction, ("forward", "reverse", "symmetric"))

    def evaluate(self, tokens: ReplyTokens) -> Term:
        forward = divergence(tokens.logprobs, tokens.reference)
        if self.direction == "forward":
            return forward
        reverse = reverse_divergence(tokens.logprobs, tokens.reference)
        if self.direction == "reverse":
            return reverse
        return Term((forward.value + reverse.value) / 2, (forward.derivative + reverse.derivative) / 2)


def divergence(logprobs: Array, others: Array) -> Term:
    """Return sum p log(p / q), and its derivative by log p."""
    probabilities, ratios = np.exp(logprobs), logprobs - others
    return Term(float(probabilities @ ratios), probabilities * (1 + ratios))


def reverse_divergence(logprobs: Array, others: Array) -> Term:
    """Return sum q log(q / p), and its derivative by log p."""
    probabilities = np.exp(others)
    return Term(float(probabilities @ (others - logprobs)), -probabilities)
