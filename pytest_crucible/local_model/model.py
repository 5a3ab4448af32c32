"""The transformer over whole rows: forward pass, log-probabilities of targets, and exact gradients.

Where a target does not count, nothing is computed after the last attention. Inside, the gains of norms are folded into the
matrices that follow them (`Folded`), which saves a pass over the activations (Zhang & Sennrich 2019).

Attention is causal, with smeared keys: k_t <- k_t + m (k_{t-1} - k_t), with a learned m per channel. A key then contains the token
before it, so that a single layer can find where a token occurred and read what followed: the model learns copying early. Rotary
positions (Su et al. 2021) rotate neighbouring channels (2i, 2i+1), read as one complex number, by position * 10000^(-i / pairs).
Queries are processed in blocks, and a block reads only the keys up to its own end, which saves about a third of the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pytest_crucible.local_model.config import Floats, Integers, Shape, Weights
from pytest_crucible.quick_dataclass import dataclass

ScalarT = TypeVar("ScalarT", bound=np.generic)

# Keeps a row of zeros from dividing by 0.
EPSILON = 1e-6


def normalise(x: Floats) -> tuple[Floats, Floats]:
    """Return the rows of x over their root mean square, and the reciprocals of that, (rows, 1)."""
    scale = np.einsum("nw,nw->n", x, x)
    scale /= x.shape[1]
    scale += EPSILON
    np.sqrt(scale, out=scale)
    np.divide(1, scale, out=scale)
    return x * scale[:, None], scale[:, None]


def normalise_backward(d_out: Floats, out: Floats, scale: Floats) -> Floats:
    """Return the gradient of the input of `normalise`, in place of `d_out`."""
    along = np.einsum("nw,nw->n", d_out, out)
    along /= out.shape[1]
    d_out -= out * along[:, None]
    d_out *= scale
    return d_out


# Queries in a block: smaller blocks save more work but make more and smaller products.
_BLOCK = 64
# The base of the rotary frequencies, as in Su et al. 2021.
_BASE = 10_000.0


@dataclass(slots=True)
class AttentionTrace:
    """Intermediate values for the backward pass: smearing's differences, rotated queries, keys and values, and weights by block."""

    steps: Floats
    queries: Floats
    keys: Floats
    values: Floats
    exponents: list[Floats]
    inverse: list[Floats]
    out: Floats


@lru_cache(maxsize=4)
def rotations(shape: Shape, dtype: DTypeLike) -> NDArray[np.complexfloating]:
    """Return the complex factors of queries and keys, (context, width).

    Those of the queries contain 1 / sqrt(head) as well.
    """
    pairs = shape.head // 2
    angles = np.arange(shape.context)[:, None] * _BASE ** (-np.arange(pairs) / pairs)
    rotated = np.tile(np.exp(1j * angles), (1, 2 * shape.heads))
    rotated[:, : shape.width // 2] *= shape.head**-0.5
    rotated = rotated.astype(np.result_type(dtype, np.complex64))
    rotated.flags.writeable = False
    return rotated


def attend(qkv: Floats, smear: Floats, shape: Shape) -> AttentionTrace:
    """Return attention over fused queries, keys, values (rows, positions, 3 * width), which are overwritten."""
    rows, positions, width = qkv.shape[0], qkv.shape[1], shape.width
    keys = qkv[:, :, width : 2 * width]
    steps = keys[:, :-1] - keys[:, 1:]
    keys[:, 1:] += steps * smear
    # A view: multiplying complex numbers rotates the pairs of channels in place.
    rotated = qkv[:, :, : 2 * width].view(np.result_type(qkv.dtype, np.complex64))
    rotated *= rotations(shape, qkv.dtype)[:positions]
    heads = qkv.reshape(rows, positions, 3, shape.heads, shape.head).transpose(2, 0, 3, 1, 4)
    out = np.empty((rows, positions, shape.heads, shape.head), qkv.dtype)
    attended = AttentionTrace(steps, heads[0], heads[1], heads[2], [], [], out.reshape(rows * positions, width))
    for start, end in blocks_of(positions):
        exponents, inverse = weigh_block(heads[0][:, :, start:end], heads[1][:, :, :end], start)
        mixed = exponents @ heads[2][:, :, :end]
        np.multiply(mixed, inverse, out=out[:, start:end].transpose(0, 2, 1, 3))
        attended.exponents.append(exponents)
        attended.inverse.append(inverse)
    return attended


def attend_backward(d_out: Floats, attended: AttentionTrace, smear: Floats, shape: Shape) -> tuple[Floats, Floats]:
    """Return gradients of the fused queries, keys, values (rows * positions, 3 * width) and of the smear (width,).

    With e the exponents and r one over their sum, the softmax is p = e r, and its backward, dS = p (dP - sum(dP p)),
    becomes e (r dP - r sum(dO O)): the division by the sum never touches anything (positions, positions).
    """
    queries, keys, values = attended.queries, attended.keys, attended.values
    rows, _, positions, _ = queries.shape
    split = (rows, positions, shape.heads, shape.head)
    d_heads = d_out.reshape(split).transpose(0, 2, 1, 3)
    row_sums = np.einsum("bthd,bthd->bht", d_out.reshape(split), attended.out.reshape(split))[..., None]
    d_qkv = np.zeros((rows, positions, 3, shape.heads, shape.head), d_out.dtype)
    d_queries, d_keys, d_values = d_qkv.transpose(2, 0, 3, 1, 4)
    for (start, end), exponents, inverse in zip(
        blocks_of(positions), attended.exponents, attended.inverse, strict=True
    ):
        d_mixed = d_heads[:, :, start:end] * inverse
        d_scores = d_mixed @ values[:, :, :end].swapaxes(2, 3)
        d_scores -= row_sums[:, :, start:end] * inverse
        d_scores *= exponents
        d_values[:, :, :end] += exponents.swapaxes(2, 3) @ d_mixed
        d_keys[:, :, :end] += d_scores.swapaxes(2, 3) @ queries[:, :, start:end]
        d_queries[:, :, start:end] = d_scores @ keys[:, :, :end]
    fused = d_qkv.reshape(rows, positions, 3 * shape.width)
    return fused.reshape(rows * positions, -1), _backward_rotation(fused, attended.steps, smear, shape)


def _backward_rotation(d_qkv: Floats, steps: Floats, smear: Floats, shape: Shape) -> Floats:
    """Take gradients of queries and keys back through rotation and smearing, in place; return the smear's own."""
    rotated = d_qkv[:, :, : 2 * shape.width].view(np.result_type(d_qkv.dtype, np.complex64))
    rotated *= rotations(shape, d_qkv.dtype)[: d_qkv.shape[1]].conj()
    d_keys = d_qkv[:, :, shape.width : 2 * shape.width]
    d_smear: Floats = np.einsum("btw,btw->w", d_keys[:, 1:], steps)
    smeared = d_keys[:, 1:] * smear
    d_keys[:, 1:] -= smeared
    d_keys[:, :-1] += smeared
    return d_smear


def blocks_of(positions: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, positions)) for start in range(0, positions, _BLOCK)]


def weigh_block(queries: Floats, keys: Floats, start: int) -> tuple[Floats, Floats]:
    """Return unnormalised softmax weights of a block of queries, and the reciprocals of their sums."""
    scores = queries @ keys.swapaxes(-2, -1)
    scores[..., start:] += _future(queries.shape[-2], scores.dtype)
    # Subtracting the maximum keeps exp from overflowing.
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    return scores, 1 / scores.sum(axis=-1, keepdims=True)


@lru_cache(maxsize=16)
def _future(size: int, dtype: DTypeLike) -> Floats:
    mask = np.triu(np.full((size, size), -np.inf, dtype), k=1)
    mask.flags.writeable = False
    return mask


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

        def fold(name: str, matrix: Floats | None = None) -> Floats:
            matrix, gain = weights[name] if matrix is None else matrix, gain_of(name)
            return matrix if gain is None else weights[gain][:, None] * matrix

        layers = tuple(
            Layer(*(fold(f"layers.{index}.{part.name}") for part in fields(Layer))) for index in range(shape.layers)
        )
        # The transposed embedding is not contiguous, and products with it would be slower.
        last = np.ascontiguousarray(fold("unembedding", weights.get("unembedding", weights["embedding"].T)))
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
    layers: list[_LayerTrace]
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
        layer_traces.append(_LayerTrace(before, scale, attended, run_mlp(layer, x, out)))
    return Trace(*normalise(x), places, layer_traces, residual)


def states_elsewhere(folded: Folded, trace: Trace, places: Integers) -> Floats:
    """Return the last states at other places than those of a forward pass, (places, width)."""
    x = trace.residual[places]
    run_mlp(folded.layers[-1], x, trace.layers[-1].attended.out[places])
    return normalise(x)[0]


def run_mlp(layer: Layer, x: Floats, attended: Floats) -> _MlpTrace:
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
        layer, trace_of_layer, name = folded.layers[index], trace.layers[index], f"layers.{index}."
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


_GAINS = {"qkv": "attention_norm", "up": "mlp_norm", "unembedding": "norm"}


def gain_of(name: str) -> str | None:
    """Return the name of the gain that is folded into a matrix, or None.

    >>> gain_of("layers.0.up"), gain_of("layers.0.down"), gain_of("unembedding")
    ('layers.0.mlp_norm', None, 'norm')
    """
    layer, dot, part = name.rpartition(".")
    return f"{layer}{dot}{_GAINS[part]}" if part in _GAINS else None
