"""Training data: rows of tokens with one target per position, and their batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_crucible.local_model.config import Floats, Integers


@dataclass(frozen=True, slots=True)
class Datum:
    """One row: position i of `tokens` predicts `inputs["target_tokens"][i]`.

    The other inputs (weights; or logprobs and advantages) have one number per position as well; each loss lists its
    own.
    """

    tokens: Sequence[int]
    inputs: Mapping[str, NDArray[np.number]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", {name: np.asarray(values) for name, values in self.inputs.items()})


@dataclass(frozen=True, slots=True)
class Batch:
    """Right-padded rows (rows, positions): tokens to read, targets to predict, and the targets' weights.

    Padding needs no mask: its weight is 0, and no position reads to its right.

    >>> batch = next_token_batch([[5, 6, 7], [8, 9]], pad=0)
    >>> batch.tokens.tolist(), batch.targets.tolist(), batch.weights.tolist()
    ([[5, 6], [8, 0]], [[6, 7], [9, 0]], [[1.0, 1.0], [1.0, 0.0]])
    """

    tokens: Integers
    targets: Integers
    weights: Floats

    def __post_init__(self) -> None:
        if not self.tokens.shape == self.targets.shape == self.weights.shape or self.tokens.ndim != 2:
            shapes = ", ".join(str(array.shape) for array in (self.tokens, self.targets, self.weights))
            raise ValueError(f"tokens, targets and weights must be of one shape (rows, positions), not {shapes}")


def next_token_batch(rows: Sequence[Sequence[int]], *, pad: int, weights: Sequence[ArrayLike] | None = None) -> Batch:
    """Return rows that predict their own next token.

    `weights` (one per token of a row) say how much predicting the token counts.
    """
    row_weights = [
        np.ones(len(row)) if weights is None else np.asarray(weights[index]) for index, row in enumerate(rows)
    ]
    return Batch(
        tokens=pad_rows([row[:-1] for row in rows], pad).astype(np.int64),
        targets=pad_rows([row[1:] for row in rows], pad).astype(np.int64),
        weights=pad_rows([row[1:] for row in row_weights], 0.0).astype(np.float32),
    )


def pad_rows(rows: Sequence[ArrayLike], fill: float) -> NDArray[np.number]:
    """Return rows of different lengths as one array, padded on the right."""
    arrays = [np.asarray(row) for row in rows]
    longest = max(len(array) for array in arrays)
    result = np.full(
        (len(arrays), longest), fill, np.result_type(*(array.dtype for array in arrays if array.size), type(fill))
    )
    for index, array in enumerate(arrays):
        result[index, : len(array)] = array
    return result
