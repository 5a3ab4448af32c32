"""Regularizers that keep numbers small: of log-probabilities, or of probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens
from pytest_crucible.training.regularizers.term import Array, Term, Weighted, check_choice

Of = Literal["logprobs", "probabilities"]


@dataclass(frozen=True)
class L1(Weighted):
    """sum |x|, x being the tokens' log-probabilities or probabilities.

    >>> from pytest_crucible.local_model.batches import Datum
    >>> row = Datum([5, 6], {"target_tokens": [6, 7], "weights": [1.0, 1.0]})
    >>> L1(0.1).evaluate(ReplyTokens([row], [{"logprobs": [-1.0, -0.5]}], "cross_entropy", {}))
    Term(value=1.5, derivative=array([-1., -1.]))
    """

    of: Of = "logprobs"
    name: ClassVar[str] = "l1"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_of(self.name, self.of)

    def evaluate(self, tokens: ReplyTokens) -> Term:
        values, slopes = _read_values(tokens, self.of)
        # At 0 the absolute value has no derivative; 0 is one of its subgradients.
        return Term(float(np.abs(values).sum()), np.sign(values) * slopes)


@dataclass(frozen=True)
class L2(Weighted):
    """sum (x - center)^2; `center` is a number, or "mean" for the mean of the batch."""

    of: Of = "logprobs"
    center: float | Literal["mean"] = 0.0
    name: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_of(self.name, self.of)
        if self.center != "mean" and not (isinstance(self.center, int | float) and math.isfinite(self.center)):
            raise ValueError(f"{self.name} has center = {self.center!r}: write a number, or 'mean'")

    def evaluate(self, tokens: ReplyTokens) -> Term:
        values, slopes = _read_values(tokens, self.of)
        # The mean moves with the values, but deviations from it sum to 0, so that this adds nothing to the derivative.
        deviations = values - (values.mean() if isinstance(self.center, str) else self.center)
        return Term(float(deviations @ deviations), 2 * deviations * slopes)


@dataclass(frozen=True)
class ElasticNet(Weighted):
    """l1_ratio * sum |x| + (1 - l1_ratio) * sum x^2. Zou & Hastie 2005, J. R. Stat. Soc. B 67:301."""

    l1_ratio: float = 0.5
    of: Of = "logprobs"
    name: ClassVar[str] = "elastic_net"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_of(self.name, self.of)
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"{self.name} has l1_ratio = {self.l1_ratio!r}: write a number from 0 to 1")

    def evaluate(self, tokens: ReplyTokens) -> Term:
        parts = L1(1.0, self.of).evaluate(tokens), L2(1.0, self.of).evaluate(tokens)
        shares = self.l1_ratio, 1 - self.l1_ratio
        return Term(
            sum(share * part.value for share, part in zip(shares, parts, strict=True)),
            shares[0] * parts[0].derivative + shares[1] * parts[1].derivative,
        )


def _check_of(name: str, of: object) -> None:
    check_choice(name, "of", of, ("logprobs", "probabilities"))


def _read_values(tokens: ReplyTokens, of: Of) -> tuple[Array, Array]:
    """Return the values, and their derivative by the log-probabilities."""
    if of == "logprobs":
        return tokens.logprobs, np.ones_like(tokens.logprobs)
    probabilities = np.exp(tokens.logprobs)
    # The exponential is its own derivative.
    return probabilities, probabilities
