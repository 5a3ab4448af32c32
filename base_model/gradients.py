"""Gradients of all weights of a model over whole rows, which only its making needs: adapters are trained by the package.

    weights = initial_weights(shape, seed=0)
    batch = Batch(tokens, targets, weights_of_positions)                  # all (rows, positions)
    loss, gradients = loss_and_gradients(weights, shape, batch)           # nats, summed with the weights
    weights[name] -= rate * gradients[name] / batch.weights.sum()         # for every name in `weights`

`loss` is a sum, sum(weights * -log p(target)), never a mean: divide by the weights' sum yourself. Rows may be packed or
right-padded (weight 0). Everything is of the dtype of the weights; float64 works, for checking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from pytest_crucible.local_model.config import Floats, Integers, Shape, Weights, check_weights, pad_rows
from pytest_crucible.local_model.model import (
    Folded,
    TargetLogprobs,
    Trace,
    backward,
    forward,
    gain_of,
    predict,
    predict_backward,
)


def initial_weights(shape: Shape, seed: int) -> Weights:
    """Return random weights to train from.

    Normal with variance 1 / inputs; matrices that write to the residual stream are smaller. Gains start at 1. Keys of
    the first half of the heads start unsmeared, those of the others fully smeared: one layer can then find "what
    followed this token before", which copying needs.

    >>> initial_weights(Shape(8, 4, 1, 2, 8, 16), seed=0)["layers.0.smear"]
    array([0., 0., 1., 1.], dtype=float32)
    """
    random = np.random.Generator(np.random.Philox(seed))
    weights = {name: _initial(name, size, shape, random) for name, size in shape.of_weights.items()}
    check_weights(weights, shape)
    return weights


def _initial(name: str, size: tuple[int, ...], shape: Shape, random: np.random.Generator) -> Floats:
    part = name.rsplit(".", 1)[-1]
    if part == "smear":
        return np.repeat(np.arange(shape.heads) >= shape.heads // 2, shape.head).astype(np.float32)
    if len(size) == 1:
        return np.ones(size, np.float32)
    # 0.02, and smaller matrices that write to the residual stream, as in GPT-2 (Radford et al. 2019).
    spread = 0.02 if part == "embedding" else size[0] ** -0.5
    if part in ("out", "down"):
        # Two matrices a layer write to the residual stream: its variance must not grow with the number of layers.
        spread /= (2 * shape.layers) ** 0.5
    return random.normal(0.0, spread, size).astype(np.float32)


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


def loss_and_gradients(weights: Weights, shape: Shape, batch: Batch) -> tuple[float, Weights]:
    """Return the weighted sum of -log p(target) over a batch, and its gradient for every weight.

    Raises ValueError if no position has a weight, where a row is longer than the context, and where the loss is not
    finite.
    """
    folded = Folded.of(weights, shape)
    trace, predicted, counted = _predict_batch(folded, shape, batch)
    loss = -float(predicted.logprobs @ counted)
    if not np.isfinite(loss):
        raise ValueError(f"the loss is {loss}")
    gradients: Weights = {}
    collect = partial(_collect, gradients, weights)
    d_states = predict_backward(folded, predicted, -counted, collect)
    d_x = backward(folded, shape, trace, d_states, collect)
    assert d_x is not None
    _add_by_token(gradients["embedding"], batch.tokens.reshape(-1), d_x)
    return loss, gradients


def log_likelihood(weights: Weights, shape: Shape, batch: Batch) -> float:
    """Return the weighted sum of log p(target) over a batch."""
    folded = Folded.of(weights, shape)
    _, predicted, counted = _predict_batch(folded, shape, batch)
    return float(predicted.logprobs @ counted)


def _predict_batch(folded: Folded, shape: Shape, batch: Batch) -> tuple[Trace, TargetLogprobs, Floats]:
    """Return the pass over a batch, and log-probabilities and weights of the targets that count."""
    weights = batch.weights.reshape(-1)
    places = np.flatnonzero(weights)
    if not places.size:
        raise ValueError("no position of the batch has a weight")
    trace = forward(folded, shape, batch.tokens, places)
    predicted = predict(folded, trace.states, batch.targets.reshape(-1)[places])
    return trace, predicted, weights[places].astype(folded.unembedding.dtype)


def _collect(gradients: Weights, weights: Weights, name: str, inputs: Floats, d_outputs: Floats) -> None:
    """Store gradients of weights, from those of folded matrices.

    Of gain * W with gradient G, W gets gain * G and the gain sum(W * G).
    """
    gain = gain_of(name)
    if name.endswith("smear"):
        gradients[name] = d_outputs
    elif name == "unembedding":
        folded = d_outputs.T @ inputs
        gradients["norm"] = np.einsum("vw,vw->w", weights["embedding"], folded)
        gradients["embedding"] = folded * weights["norm"]
    elif gain is not None:
        folded = inputs.T @ d_outputs
        gradients[gain] = np.einsum("io,io->i", weights[name], folded)
        gradients[name] = folded * weights[gain][:, None]
    else:
        gradients[name] = inputs.T @ d_outputs


def _add_by_token(rows: Floats, tokens: Integers, gradients: Floats) -> None:
    """Add gradients to rows[tokens], where a token may occur many times.

    Sorting first is faster than np.add.at.
    """
    order = np.argsort(tokens, kind="stable")
    distinct, starts = np.unique(tokens[order], return_index=True)
    rows[distinct] += np.add.reduceat(gradients[order], starts, axis=0)
