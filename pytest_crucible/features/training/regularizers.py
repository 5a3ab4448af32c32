"""Regularizers: terms that a recipe adds to a loss, all of them functions of the log-probabilities of the target tokens.

    from pytest_crucible.features.training.regularizers import KLDivergence

    def train(trainer):
        data = trainer.with_reference(trainer.datums("train.jsonl"))
        for step in trainer.steps(40):
            trainer.step(trainer.batch(step, data, 8), regularizers=[KLDivergence(0.1)])

Each is a sum over the tokens that count, as Tinker's losses are, times its weight. A service returns the log-probabilities of
targets and no others, so these are the terms that can be had on every base; `weight_decay` of Adam acts on the adapter itself.
Entropy and divergence are sums over a whole vocabulary, of which a service returns the target alone. They are the targets' own
parts of those sums: with p the probability of a target, and q that under the reference, -p log p and p log(p / q).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.config import Datum
from pytest_crucible.local_model.losses import find_loss
from pytest_crucible.quick_dataclass import dataclass

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

    @property
    def weight(self) -> float:
        """The factor of the term in the loss."""

    def evaluate(self, tokens: ReplyTokens) -> Term:
        """Return value and derivative. Raises ValueError for data that it cannot be computed of."""


@dataclass(frozen=True)
class Weighted:
    """A regularizer with its weight."""

    weight: float
    name: ClassVar[str] = ""
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The values that settings may have."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"{self.name} has weight = {self.weight!r}: write a number of at least 0, such as 0.1")
        for setting, choices in self.choices.items():
            if (value := getattr(self, setting)) not in choices:
                raise ValueError(f"{self.name} has {setting} = {value!r}: write {' or '.join(map(repr, choices))}")


__all__ = [
    "L1",
    "L2",
    "Consistency",
    "ElasticNet",
    "Entropy",
    "GradientPenalty",
    "KLDivergence",
    "Orthogonality",
    "Regularizer",
    "ReplyTokens",
    "Term",
]


Of = Literal["logprobs", "probabilities"]


@dataclass(frozen=True)
class L1(Weighted):
    """sum |x|, x being the tokens' log-probabilities or probabilities.

    >>> from pytest_crucible.local_model.config import Datum
    >>> row = Datum([5, 6], {"target_tokens": [6, 7], "weights": [1.0, 1.0]})
    >>> L1(0.1).evaluate(ReplyTokens([row], [{"logprobs": [-1.0, -0.5]}], "cross_entropy", {}))
    Term(value=1.5, derivative=array([-1., -1.]))
    """

    of: Of = "logprobs"
    name: ClassVar[str] = "l1"
    choices: ClassVar = {"of": get_args(Of)}

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
    choices: ClassVar = {"of": get_args(Of)}

    def __post_init__(self) -> None:
        super().__post_init__()
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
    choices: ClassVar = {"of": get_args(Of)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"{self.name} has l1_ratio = {self.l1_ratio!r}: write a number from 0 to 1")

    def evaluate(self, tokens: ReplyTokens) -> Term:
        parts = L1(1.0, self.of).evaluate(tokens), L2(1.0, self.of).evaluate(tokens)
        shares = self.l1_ratio, 1 - self.l1_ratio
        return Term(
            sum(share * part.value for share, part in zip(shares, parts, strict=True)),
            shares[0] * parts[0].derivative + shares[1] * parts[1].derivative,
        )


def _read_values(tokens: ReplyTokens, of: Of) -> tuple[Array, Array]:
    """Return the values, and their derivative by the log-probabilities."""
    if of == "logprobs":
        return tokens.logprobs, np.ones_like(tokens.logprobs)
    probabilities = np.exp(tokens.logprobs)
    # The exponential is its own derivative.
    return probabilities, probabilities


@dataclass(frozen=True)
class Entropy(Weighted):
    """H = sum -p log p, which is added to the loss to minimise it, and subtracted to maximise it."""

    mode: Literal["maximise", "minimise"]
    name: ClassVar[str] = "entropy"
    choices: ClassVar = {"mode": ("maximise", "minimise")}

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
    choices: ClassVar = {"direction": ("forward", "reverse", "symmetric")}

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


Distance = Callable[[Array, Array], tuple[float, Array, Array]]
"""Returns a distance of two rows, and its derivatives by both."""
SHORTEST = 1e-8
"""A vector that is shorter has no direction: a row whose every token is certain."""


@dataclass(frozen=True)
class Consistency(Weighted):
    """Distance of twins: rows 1 and 2 of the batch, rows 3 and 4, and so on, each with one completion after two prompts.

    "l2" is the sum of squared differences, "l1" that of absolute ones, "cosine" is 1 - cosine, and "kl" the mean of both
    divergences. Both twins get gradients.
    """

    metric: Literal["l2", "l1", "cosine", "kl"] = "l2"
    name: ClassVar[str] = "consistency"
    choices: ClassVar = {"metric": ("l2", "l1", "cosine", "kl")}

    def evaluate(self, tokens: ReplyTokens) -> Term:
        rows = tokens.split(tokens.logprobs)
        _check_twins(rows)
        parts = [_DISTANCES[self.metric](*twins) for twins in zip(rows[::2], rows[1::2], strict=True)]
        derivatives = [derivative for _, *of_twins in parts for derivative in of_twins]
        return Term(sum(value for value, _, _ in parts), np.concatenate(derivatives))


@dataclass(frozen=True)
class Orthogonality(Weighted):
    """sum of squared cosines between the log-probabilities of different rows, of which each pair counts twice.

    A shorter row is filled with zeros: the cosine is over the tokens that both have.
    """

    name: ClassVar[str] = "orthogonality"

    def evaluate(self, tokens: ReplyTokens) -> Term:
        rows = tokens.split(tokens.logprobs)
        vectors = np.zeros((len(rows), max(map(len, rows))))
        for vector, row in zip(vectors, rows, strict=True):
            vector[: len(row)] = row
        lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SHORTEST)
        units = vectors / lengths
        cosines = units @ units.T
        np.fill_diagonal(cosines, 0.0)
        slopes = 4 * cosines @ units
        # A component along a row changes only its length.
        slopes = (slopes - (slopes * units).sum(axis=1, keepdims=True) * units) / lengths
        of_rows = [slope[: len(row)] for slope, row in zip(slopes, rows, strict=True)]
        return Term(float((cosines * cosines).sum()), np.concatenate(of_rows))


def _check_twins(rows: list[Array]) -> None:
    """Raise ValueError unless the rows are pairs with as many tokens."""
    if len(rows) % 2:
        raise ValueError(f"consistency compares rows in pairs, and the batch has {len(rows)}: give both twins of each")
    for number, (first, second) in enumerate(zip(rows[::2], rows[1::2], strict=True)):
        if len(first) != len(second):
            raise ValueError(
                f"consistency compares rows {2 * number + 1} and {2 * number + 2} of the batch, in which {len(first)} and "
                f"{len(second)} tokens count: give both the same completion"
            )


def _squared_distance(first: Array, second: Array) -> tuple[float, Array, Array]:
    difference = first - second
    return float(difference @ difference), 2 * difference, -2 * difference


def _absolute_distance(first: Array, second: Array) -> tuple[float, Array, Array]:
    sign = np.sign(first - second)
    return float(np.abs(first - second).sum()), sign, -sign


def _cosine_distance(first: Array, second: Array) -> tuple[float, Array, Array]:
    lengths = [max(float(np.linalg.norm(row)), SHORTEST) for row in (first, second)]
    units = first / lengths[0], second / lengths[1]
    cosine = float(units[0] @ units[1])
    return 1 - cosine, (cosine * units[0] - units[1]) / lengths[0], (cosine * units[1] - units[0]) / lengths[1]


def _mean_divergence(first: Array, second: Array) -> tuple[float, Array, Array]:
    """Return the mean of both divergences, which is the same from either side."""
    values, derivatives = [], []
    for row, other in ((first, second), (second, first)):
        forward, reverse = divergence(row, other), reverse_divergence(row, other)
        values.append(forward.value)
        derivatives.append((forward.derivative + reverse.derivative) / 2)
    return sum(values) / 2, derivatives[0], derivatives[1]


_DISTANCES: dict[str, Distance] = {
    "l2": _squared_distance,
    "l1": _absolute_distance,
    "cosine": _cosine_distance,
    "kl": _mean_divergence,
}
