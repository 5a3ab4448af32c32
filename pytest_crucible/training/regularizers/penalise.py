"""Regularizers of one batch together: their part of the loss, and of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_crucible.local_model.adam import NotFinite
from pytest_crucible.local_model.batches import Datum
from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens
from pytest_crucible.training.regularizers.term import Array, Regularizer, Term

TOTAL = "total:sum"
"""Metric: the loss with its regularizers."""


@dataclass(frozen=True)
class Penalty:
    """The terms that regularizers add to a loss."""

    data: list[Datum]
    """Rows whose cross-entropy has the gradients of all terms."""
    metrics: dict[str, float]
    """The weighted value of each term."""

    @property
    def total(self) -> float:
        return sum(self.metrics.values())


def penalise(tokens: ReplyTokens, regularizers: Sequence[Regularizer]) -> Penalty:
    """Return the terms of a batch. Raises ValueError for data that one cannot be computed of, NotFinite for values that are not."""
    metrics: dict[str, float] = {}
    derivative: Array = np.zeros_like(tokens.logprobs)
    # An infinite value raises an error below: numpy's warning would only repeat it.
    with np.errstate(over="ignore", invalid="ignore"):
        for regularizer in regularizers:
            term = regularizer.evaluate(tokens)
            _check_finite(regularizer.name, term)
            name = f"{regularizer.name}:sum"
            metrics[name] = metrics.get(name, 0.0) + regularizer.weight * term.value
            derivative = derivative + regularizer.weight * term.derivative
    return Penalty(tokens.weigh(derivative), metrics)


def check_regularizers(regularizers: Sequence[Regularizer]) -> None:
    """Raise TypeError unless it is a sequence of regularizers."""
    is_sequence = isinstance(regularizers, Sequence) and not isinstance(regularizers, str)
    if not is_sequence or not all(hasattr(regularizer, "evaluate") for regularizer in regularizers):
        raise TypeError(
            f"regularizers = {regularizers!r}: write a list of those in pytest_crucible.training.regularizers, such as [L2(0.1)]"
        )


def _check_finite(name: str, term: Term) -> None:
    if not (np.isfinite(term.value) and np.isfinite(term.derivative).all()):
        raise NotFinite(f"the {name} regularizer is {term.value}")
