"""The role of a regularizer: the tokens of a batch that it reads, and the term that it returns."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import find_loss

Array = NDArray[np.float64]
REFERENCE, MASK = "reference_logprobs", "mask"
ADDED = (REFERENCE, MASK)
"""Inputs of a datum that regularizers read and no loss knows."""


@dataclass(frozen=True)
class LossGradient:
    """The derivative of the loss by each log-probability, and the derivative of that, (tokens,) each."""

    slopes: Array
    curvatures: Array


class ReplyTokens:
    """Log-probabilities of the tokens that count, row after row.

    A token counts where `mask` is not 0; without a mask, where the row's weights or advantages are not 0.
    """

    def __init__(
        self, data: Sequence[Datum], outputs: Sequence[Mapping[str, Any]], loss: str, config: Mapping[str, float]
    ) -> None:
        """`outputs` have the log-probabilities of all targets, those of `loss` with this configuration."""
        self._data, self._loss, self._config = data, loss, config
        self._outputs = [np.asarray(output["logprobs"], np.float64) for output in outputs]
        self._counted = [_find_counted(datum) for datum in data]

    @cached_property
    def logprobs(self) -> Array:
        """Log-probabilities under the model in training, (tokens,)."""
        return self._concatenate(self._outputs)

    @cached_property
    def reference(self) -> Array:
        """Log-probabilities under the reference, (tokens,). Raises ValueError for rows without them."""
        if any(REFERENCE not in datum.inputs for datum in self._data):
            raise ValueError("no log-probabilities of a reference: train on data = trainer.with_reference(data)")
        return self._concatenate([np.asarray(datum.inputs[REFERENCE], np.float64) for datum in self._data])

    @cached_property
    def loss_gradient(self) -> LossGradient:
        """The derivatives of the loss by the log-probabilities. Raises ValueError for a loss whose gradient is constant."""
        loss = find_loss(self._loss)
        slopes, curvatures = [], []
        for datum, logprobs in zip(drop_inputs(self._data, ADDED), self._outputs, strict=True):
            slope = loss(logprobs, datum.inputs, self._config)[1]
            slopes.append(np.asarray(slope, np.float64))
            curvatures.append(np.asarray(loss.curve(slope, self._config), np.float64))
        return LossGradient(self._concatenate(slopes), self._concatenate(curvatures))

    def split(self, values: Array) -> list[Array]:
        """Return values of all tokens (tokens,) as one array a row."""
        return np.split(values, np.cumsum([int(counted.sum()) for counted in self._counted])[:-1])

    def weigh(self, derivative: Array) -> list[Datum]:
        """Return the rows with the weights whose cross-entropy has this derivative by each log-probability.

        Cross-entropy is -sum(weights * log p), so a weight is minus the derivative.
        """
        return [
            replace(datum, inputs={"target_tokens": datum.inputs["target_tokens"], "weights": _spread(counted, -each)})
            for datum, counted, each in zip(self._data, self._counted, self.split(derivative), strict=True)
        ]

    def _concatenate(self, rows: Sequence[Array]) -> Array:
        return np.concatenate([row[counted] for row, counted in zip(rows, self._counted, strict=True)])


def drop_inputs(data: Sequence[Datum], names: Container[str]) -> list[Datum]:
    """Return the rows without the inputs of these names."""
    return [
        replace(datum, inputs={name: values for name, values in datum.inputs.items() if name not in names})
        for datum in data
    ]


def _find_counted(datum: Datum) -> NDArray[np.bool_]:
    inputs = datum.inputs
    name = next((name for name in (MASK, "weights", "advantages") if name in inputs), "")
    return inputs[name] != 0 if name else np.ones(inputs["target_tokens"].shape, bool)


def _spread(counted: NDArray[np.bool_], values: Array) -> NDArray[np.float32]:
    spread = np.zeros(counted.shape, np.float32)
    spread[counted] = values
    return spread


@dataclass(frozen=True, slots=True)
class Term:
    """The value of a regularizer, before its weight, and its derivative by each log-probability, (tokens,)."""

    value: float
    derivative: Array


class Regularizer(Protocol):
    """A term of a loss. A recipe may have regularizers of its own; their repr has to name all their settings."""

    @property
    def name(self) -> str:
        """The name in metrics."""
        ...

    @property
    def weight(self) -> float:
        """The factor of the term in the loss."""
        ...

    def evaluate(self, tokens: ReplyTokens) -> Term:
        """Return value and derivative. Raises ValueError for data that it cannot be computed of."""
        ...


@dataclass(frozen=True)
class Weighted:
    """A regularizer with its weight."""

    weight: float
    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"{self.name} has weight = {self.weight!r}: write a number of at least 0, such as 0.1")


def check_choice(name: str, setting: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} has {setting} = {value!r}: write {' or '.join(map(repr, choices))}")
