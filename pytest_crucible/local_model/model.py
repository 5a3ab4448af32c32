"""The transformer over whole rows: forward pass, log-probabilities of targets, and exact gradients.

Train all weights (a base model), with any optimiser over a dict of arrays:

    weights = initial_weights(shape, seed=0)                              # local_model.config
    batch = Batch(tokens, targets, weights_of_positions)                  # local_model.batches, all (rows, positions)
    loss, gradients = loss_and_gradients(weights, shape, batch)           # nats, summed with the weights
    weights[name] -= rate * gradients[name] / batch.weights.sum()         # for every name in `weights`

`loss` is a sum, sum(weights * -log p(target)), never a mean: divide by the weights' sum yourself. Rows may be packed or
right-padded (weight 0). Logits are computed only where a weight is not 0. Everything is of the dtype of the weights;
float64 works, for checking. `log_likelihood` gives the loss alone.

Inside, the gains of norms are folded into the matrices that follow them: `Folded`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from pytest_crucible.local_model.attention import AttentionTrace, attend, attend_backward
from pytest_crucible.local_model.batches import Batch
from pytest_crucible.local_model.config import Floats, Integers, Shape, Weights
from pytest_crucible.local_model.norms import normalise, normalise_backward

Collect: TypeAlias = Callable[[str, Floats, Floats], None]
"""Called by backward for every folded matrix, and for every smear: name, inputs, gradients of outputs."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer's matrices, with the gains of its norms folded in."""

    qkv: Floats
    smear: Floats
    out: Floats
    up: Floats
    down: Floats


@dataclass(frozen=True, slots=True)
class Folded:
    """Weights in the form used for computing: norm(x, gain) @ W is normalise(x) @ (gain[:, None] * W).

    `unembedding` (width, vocabulary) is the weight of that name where there is one, otherwise the embedding transposed.
    """

    embedding: Floats
    layers: tuple[Layer, ...]
    unembedding: Floats

    @staticmethod
    def of(weights: Weights, shape: Shape) -> Folded:
        """Return a model's weights with the gains folded in."""
        unembedding = weights["unembedding"] if "unembedding" in weights else weights["embedding"].T
        layers = tuple(_fold_layer(weights, f"layers.{index}.") for index in range(shape.layers))
        # The transposed embedding is not contiguous, and products with it would be slower.
        last = np.ascontiguousarray(weights["norm"][:, None] * unembedding)
        return Folded(weights["embedding"], layers, last)


@dataclass(slots=True)
class _LayerTrace:
    """Intermediate values of one layer for the backward pass."""

    before_attention: Floats
    attention_scale: Floats
    attended: AttentionTrace
    before_mlp: Floats
    mlp_scale: Floats
    up: Floats


@dataclass(slots=True)
class Trace:
    """The result of a forward pass: the last normalised states (rows * positions, width), and layers' own values."""

    states: Floats
    scale: Floats
    kept: list[_LayerTrace]


def forward(folded: Folded, shape: Shape, tokens: Integers) -> Trace:
    """Run rows of tokens (rows, positions) through all layers; ValueError for rows longer than the context."""
    if tokens.shape[1] > shape.context:
        raise ValueError(f"a row of {tokens.shape[1]} tokens is longer than the context of {shape.context}")
    x = folded.embedding[tokens.reshape(-1)]
    layer_traces = []
    for layer in folded.layers:
        before, scale = normalise(x)
        attended = attend((before @ layer.qkv).reshape(*tokens.shape, -1), layer.smear, shape)
        x += attended.out @ layer.out
        before_mlp, mlp_scale = normalise(x)
        up = before_mlp @ layer.up
        np.maximum(up, 0, out=up)
        x += np.square(up) @ layer.down
        layer_traces.append(_LayerTrace(before, scale, attended, before_mlp, mlp_scale, up))
    return Trace(*normalise(x), layer_traces)


def backward(
    folded: Folded, shape: Shape, trace: Trace, d_states: Floats, collect: Collect, *, of_tokens: bool = True
) -> Floats | None:
    """Return the gradient of the embedded tokens, given that of the last states, which is overwritten.

    Its shape is (rows * positions, width); None without `of_tokens`, for adapters, which do not train the embedding.
    """
    d_x = normalise_backward(d_states, trace.states, trace.scale)
    for index in reversed(range(shape.layers)):
        layer, trace_of_layer, name = folded.layers[index], trace.kept[index], f"layers.{index}."
        # After the last layer a state that predicts nothing has no gradient: prompts cost nothing until its attention.
        rows = np.flatnonzero(d_x.any(axis=1)) if index == shape.layers - 1 else None
        d_out = _mlp_backward(layer, trace_of_layer, name, d_x, rows, collect)
        d_qkv, d_smear = attend_backward(d_out, trace_of_layer.attended, layer.smear, shape)
        collect(name + "smear", d_smear, d_smear)
        collect(name + "qkv", trace_of_layer.before_attention, d_qkv)
        if index or of_tokens:
            d_x += normalise_backward(
                d_qkv @ layer.qkv.T, trace_of_layer.before_attention, trace_of_layer.attention_scale
            )
    return d_x if of_tokens else None


def _mlp_backward(
    layer: Layer, trace: _LayerTrace, name: str, d_x: Floats, rows: Integers | None, collect: Collect
) -> Floats:
    """Take gradients back through the MLP, in place, and the matrix before it; return those of what attention gives.

    With `rows`, only these have gradients.
    """
    parts = (d_x, trace.up, trace.before_mlp, trace.mlp_scale, trace.attended.out)
    d_rows, up, before, scale, attended = parts if rows is None else [part[rows] for part in parts]
    d_square = d_rows @ layer.down.T
    collect(name + "down", np.square(up), d_rows)
    d_square *= up
    d_square *= 2
    collect(name + "up", before, d_square)
    # += because the residual stream passes its gradient on unchanged.
    d_rows += normalise_backward(d_square @ layer.up.T, before, scale)
    collect(name + "out", attended, d_rows)
    if rows is None:
        return d_rows @ layer.out.T
    d_x[rows] = d_rows
    d_out = np.zeros_like(d_x)
    d_out[rows] = d_rows @ layer.out.T
    return d_out


@dataclass(slots=True)
class TargetLogprobs:
    """Log-probabilities of the targets after some states, and what gives all probabilities there, (n, vocabulary) and (n, 1).

    Targets and log-probabilities are (n,), or (n, k) where a state has several targets.
    """

    rows: Integers
    targets: Integers
    states: Floats
    logprobs: Floats
    exponents: Floats
    totals: Floats
    """The probabilities are exponents / totals, which only states with a gradient need."""


def predict(folded: Folded, states: Floats, rows: Integers, targets: Integers) -> TargetLogprobs:
    """Return the log-probabilities of the targets after the states at `rows`."""
    # Logits are the largest product: compute them only where a target counts.
    chosen = states[rows]
    logits = chosen @ folded.unembedding
    # Subtracting the maximum keeps exp from overflowing.
    logits -= logits.max(axis=1, keepdims=True)
    logprobs = np.take_along_axis(logits, targets.reshape(len(rows), -1), axis=1)
    np.exp(logits, out=logits)
    totals = logits.sum(axis=1, keepdims=True)
    logprobs -= np.log(totals)
    return TargetLogprobs(rows, targets, chosen, logprobs.reshape(targets.shape), logits, totals)


def predict_backward(
    folded: Folded, trace: Trace, predicted: TargetLogprobs, d_logprobs: Floats, collect: Collect
) -> Floats:
    """Return the gradient of all last states, given that of the log-probabilities.

    States without one cost nothing.
    """
    each = d_logprobs.reshape(len(predicted.rows), -1)
    with_gradient = np.flatnonzero(each.any(axis=1))
    each, targets = each[with_gradient], predicted.targets.reshape(len(predicted.rows), -1)[with_gradient]
    d_logits = predicted.exponents[with_gradient]
    d_logits *= -each.sum(axis=1, keepdims=True) / predicted.totals[with_gradient]
    for column in range(each.shape[1]):
        d_logits[np.arange(len(with_gradient)), targets[:, column]] += each[:, column]
    collect("unembedding", predicted.states[with_gradient], d_logits)
    d_states = np.zeros_like(trace.states)
    d_states[predicted.rows[with_gradient]] = d_logits @ folded.unembedding.T
    return d_states


def loss_and_gradients(weights: Weights, shape: Shape, batch: Batch) -> tuple[float, Weights]:
    """Return the weighted sum of -log p(target) over a batch, and its gradient for every weight.

    Raises ValueError where no position has a weight, where a row is longer than the context, and where the loss is not
    finite.
    """
    folded = Folded.of(weights, shape)
    trace = forward(folded, shape, batch.tokens)
    predicted, counted = _predict_batch(folded, trace, batch)
    loss = -float(predicted.logprobs @ counted)
    if not np.isfinite(loss):
        raise ValueError(f"the loss is {loss}")
    gradients: Weights = {}
    collect = partial(_collect, gradients, weights)
    d_states = predict_backward(folded, trace, predicted, -counted, collect)
    d_x = backward(folded, shape, trace, d_states, collect)
    assert d_x is not None
    _add_by_token(gradients["embedding"], batch.tokens.reshape(-1), d_x)
    return loss, gradients


def log_likelihood(weights: Weights, shape: Shape, batch: Batch) -> float:
    """Return the weighted sum of log p(target) over a batch."""
    folded = Folded.of(weights, shape)
    predicted, counted = _predict_batch(folded, forward(folded, shape, batch.tokens), batch)
    return float(predicted.logprobs @ counted)


def _predict_batch(folded: Folded, trace: Trace, batch: Batch) -> tuple[TargetLogprobs, Floats]:
    flat = batch.weights.reshape(-1)
    rows = np.flatnonzero(flat)
    if not rows.size:
        raise ValueError("no position of the batch has a weight")
    predicted = predict(folded, trace.states, rows, batch.targets.reshape(-1)[rows])
    return predicted, flat[rows].astype(folded.unembedding.dtype)


def _fold_layer(weights: Weights, name: str) -> Layer:
    return Layer(
        qkv=weights[name + "attention_norm"][:, None] * weights[name + "qkv"],
        smear=weights[name + "smear"],
        out=weights[name + "out"],
        up=weights[name + "mlp_norm"][:, None] * weights[name + "up"],
        down=weights[name + "down"],
    )


_GAINS = {"qkv": "attention_norm", "up": "mlp_norm", "unembedding": "norm"}


def gain_of(name: str) -> str | None:
    """Return the name of the gain that is folded into a matrix, or None.

    >>> gain_of("layers.0.up"), gain_of("layers.0.down"), gain_of("unembedding")
    ('layers.0.mlp_norm', None, 'norm')
    """
    layer, dot, part = name.rpartition(".")
    return f"{layer}{dot}{_GAINS[part]}" if part in _GAINS else None


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
