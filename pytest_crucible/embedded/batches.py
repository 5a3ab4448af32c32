"""Training data: rows of tokens with one target per position, and how they are put side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_crucible.embedded.shape import Floats, Integers


@dataclass(frozen=True, slots=True)
class Datum:
    """One row: position i of `tokens` predicts `inputs["target_tokens"][i]`.

    The other inputs (weights; or logprobs and advantages) have one number per position as well: losses say which.
    """

    tokens: Sequence[int]
    inputs: Mapping[str, NDArray[np.number]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", {name: np.asarray(one) for name, one in self.inputs.items()})


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows, all (rows, positions): what is read, what should come next, and how much that counts.

    Padding needs no mask: its weight is 0, and no position looks to its right.

    >>> batch = next_token_batch([[5, 6, 7], [8, 9]], pad=0)
    >>> batch.tokens.tolist(), batch.targets.tolist(), batch.weights.tolist()
    ([[5, 6], [8, 0]], [[6, 7], [9, 0]], [[1.0, 1.0], [1.0, 0.0]])
    """

    tokens: Integers
    targets: Integers
    weights: Floats

    def __post_init__(self) -> None:
        if not self.tokens.shape == self.targets.shape == self.weights.shape or self.tokens.ndim != 2:
            given = ", ".join(str(one.shape) for one in (self.tokens, self.targets, self.weights))
            raise ValueError(f"tokens, targets and weights must be of one shape (rows, positions), not {given}")


def next_token_batch(rows: Sequence[Sequence[int]], *, pad: int, weights: Sequence[ArrayLike] | None = None) -> Batch:
    """Rows that predict their own next token; weights (one per token of a row) say how much predicting it counts."""
    counted = [np.ones(len(row)) if weights is None else np.asarray(weights[at]) for at, row in enumerate(rows)]
    return Batch(
        tokens=padded([row[:-1] for row in rows], pad).astype(np.int64),
        targets=padded([row[1:] for row in rows], pad).astype(np.int64),
        weights=padded([one[1:] for one in counted], 0.0).astype(np.float32),
    )


def padded(rows: Sequence[ArrayLike], fill: float) -> NDArray[np.number]:
    """Rows of different lengths as one array, filled up at the right."""
    arrays = [np.asarray(row) for row in rows]
    longest = max(len(one) for one in arrays)
    full = np.full((len(arrays), longest), fill, np.result_type(*(one.dtype for one in arrays if one.size), type(fill)))
    for at, one in enumerate(arrays):
        full[at, : len(one)] = one
    return full
