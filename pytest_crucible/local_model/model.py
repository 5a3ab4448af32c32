"""The transformer over whole rows: forward pass, log-probabilities of targets, and exact gradients.

Train all weights (a base model), with any optimiser over a dict of arrays:

    weights = initial_weights(shape, seed=0)                              # local_model.config
    batch = Batch(tokens, targets, weights_of_positions)                  # local_model.batches, all (rows, positions)
    loss, gradients = loss_and_gradients(weights, shape, batch)           # nats, summed with the weights
    weights[name] -= rate * gradients[name] / batch.weights.sum()         # for every name in `weights`

`loss` is a sum, sum(weights * -log p(target)), never a mean: divide by the weights' sum yourself. Rows may be packed or
right-padded (weight 0). Where a weight is 0 nothing is computed after the last attention. Everything is of the dtype of
the weights; float64 works, for checking. `log_likelihood` gives the loss alone.

Inside, the gains of norms are folded into the matrices that follow them: `Folded`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.attention import AttentionTrace, attend, attend_backward, normalise, normalise_backward
from pytest_crucible.local_model.config import Batch, Floats, Integers, Shape, Weights

ScalarT = TypeVar("ScalarT", bound=np.generic)

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

    `unembedding` (width, vocabulary) is the weight with that name if there is one, otherwise the embedding transposed.
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
    mlp: _MlpTrace


@dataclass(slots=True)
class _MlpTrace:
    """Intermediate values of one layer after its attention, whose output is the first."""

    attended: Floats
    before: Floats
    scale: Floats
    up: Floats


@dataclass(slots=True)
class Trace:
    """The result of a forward pass: the last normalised states (places, width), and layers' own values.

    With `places`, `residual` (rows * positions, width) is what the last layer's attention adds to.
    """

    states: Floats
    scale: Floats
    places: Integers | None
    kept: list[_LayerTrace]
    residual: Floats


def forward(folded: Folded, shape: Shape, tokens: Integers, places: Integers | None = None) -> Trace:
    """Run rows of tokens (rows, positions) through all layers; ValueError for rows longer than the context.

    The last states are those at `places` of rows * positions, by default all: others cost nothing after the last attention.
    """
    if tokens.shape[1] > shape.context:
        raise ValueError(f"a row of {tokens.shape[1]} tokens is longer than the context of {shape.context}")
    residual = x = folded.embedding[tokens.reshape(-1)]
    layer_traces = []
    for index, layer in enumerate(folded.layers):
        before, scale = normalise(x)
        attended = attend((before @ layer.qkv).reshape(*tokens.shape, -1), layer.smear, shape)
        out = attended.out
        if places is not None and index == shape.layers - 1:
            # Indexing copies: the residual stays as it is.
            x, out = x[places], out[places]
        layer_traces.append(_LayerTrace(before, scale, attended, _run_mlp(layer, x, out)))
    return Trace(*normalise(x), places, layer_traces, residual)


def states_elsewhere(folded: Folded, trace: Trace, places: Integers) -> Floats:
    """Return the last states at other places than those of a forward pass, (places, width)."""
    x = trace.residual[places]
    _run_mlp(folded.layers[-1], x, trace.kept[-1].attended.out[places])
    return normalise(x)[0]


def _run_mlp(layer: Layer, x: Floats, attended: Floats) -> _MlpTrace:
    """Add the attention's output and the MLP to the residual stream, in place."""
    x += attended @ layer.out
    before, scale = normalise(x)
    up = before @ layer.up
    np.maximum(up, 0, out=up)
    x += np.square(up) @ layer.down
    return _MlpTrace(attended, before, scale, up)


def backward(
    folded: Folded, shape: Shape, trace: Trace, d_states: Floats, collect: Collect, *, of_tokens: bool = True
) -> Floats | None:
    """Return the gradient of the embedded tokens, given that of the last states, which is overwritten.

    Its shape is (rows * positions, width); None without `of_tokens`, for adapters, which do not train the embedding.
    """
    d_x = normalise_backward(d_states, trace.states, trace.scale)
    for index in reversed(range(shape.layers)):
        layer, trace_of_layer, name = folded.layers[index], trace.kept[index], f"layers.{index}."
        d_out = _mlp_backward(layer, trace_of_layer.mlp, name, d_x, collect)
        if trace.places is not None and index == shape.layers - 1:
            d_x, d_out = (_scatter(each, trace.places, len(trace.residual)) for each in (d_x, d_out))
        d_qkv, d_smear = attend_backward(d_out, trace_of_layer.attended, layer.smear, shape)
        collect(name + "smear", d_smear, d_smear)
        collect(name + "qkv", trace_of_layer.before_attention, d_qkv)
        if index or of_tokens:
            d_x += normalise_backward(
                d_qkv @ layer.qkv.T, trace_of_layer.before_attention, trace_of_layer.attention_scale
            )
    return d_x if of_tokens else None


def _scatter(values: Floats, places: Integers, size: int) -> Floats:
    scattered = np.zeros((size, values.shape[1]), values.dtype)
    scattered[places] = values
    return scattered


def _mlp_backward(layer: Layer, trace: _MlpTrace, name: str, d_x: Floats, collect: Collect) -> Floats:
    """Propagate gradients back through the MLP, in place, and the matrix before it; return those of attention's output."""
    # Twice up is the slope of its square; doubling these rows is less work than doubling the wider ones.
    d_square = (2 * d_x) @ layer.down.T
    collect(name + "down", np.square(trace.up), d_x)
    d_square *= trace.up
    collect(name + "up", trace.before, d_square)
    # += because the residual stream passes its gradient on unchanged.
    d_x += normalise_backward(d_square @ layer.up.T, trace.before, trace.scale)
    collect(name + "out", trace.attended, d_x)
    return d_x @ layer.out.T


@dataclass(slots=True)
class TargetLogprobs:
    """Log-probabilities of the targets after some states, and what gives all probabilities there, (n, vocabulary) and (n, 1).

    Targets and log-probabilities are (n,), or (n, k) where a state has several targets.
    """

    targets: Integers
    states: Floats
    logprobs: Floats
    exponents: Floats
    totals: Floats
    """The probabilities are exponents / totals, which only the backward pass needs."""


def predict(folded: Folded, states: Floats, targets: Integers) -> TargetLogprobs:
    """Return the log-probabilities of the targets after states (n, width)."""
    logits = states @ folded.unembedding
    # Subtracting the maximum keeps exp from overflowing.
    logits -= logits.max(axis=1, keepdims=True)
    logprobs = np.take_along_axis(logits, _columns(targets), axis=1)
    np.exp(logits, out=logits)
    totals = logits.sum(axis=1, keepdims=True)
    logprobs -= np.log(totals)
    return TargetLogprobs(targets, states, logprobs.reshape(targets.shape), logits, totals)


def predict_backward(folded: Folded, predicted: TargetLogprobs, d_logprobs: Floats, collect: Collect) -> Floats:
    """Return the gradient of the states, given that of the log-probabilities. Overwrites `predicted.exponents`."""
    places = np.arange(len(predicted.states))
    by_target = _columns(d_logprobs)
    d_logits = predicted.exponents
    d_logits *= -by_target.sum(axis=1, keepdims=True) / predicted.totals
    for d_column, targets in zip(by_target.T, _columns(predicted.targets).T, strict=True):
        d_logits[places, targets] += d_column
    collect("unembedding", predicted.states, d_logits)
    return d_logits @ folded.unembedding.T


def _columns(values: NDArray[ScalarT]) -> NDArray[ScalarT]:
    """Return values (n,) as (n, 1), and others as they are; n may be 0."""
    return values[:, None] if values.ndim == 1 else values


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
