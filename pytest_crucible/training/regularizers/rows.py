"""Regularizers that compare rows of a batch with each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from pytest_crucible.training.regularizers.distributions import divergence, reverse_divergence
from pytest_crucible.training.regularizers.reply_tokens import ReplyTokens
from pytest_crucible.training.regularizers.term import Array, Term, Weighted, check_choice

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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "metric", self.metric, tuple(_DISTANCES))

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
    for one, other in ((first, second), (second, first)):
        forward, reverse = divergence(one, other), reverse_divergence(one, other)
        values.append(forward.value)
        derivatives.append((forward.derivative + reverse.derivative) / 2)
    return sum(values) / 2, derivatives[0], derivatives[1]


_DISTANCES: dict[str, Distance] = {
    "l2": _squared_distance,
    "l1": _absolute_distance,
    "cosine": _cosine_distance,
    "kl": _mean_divergence,
}
