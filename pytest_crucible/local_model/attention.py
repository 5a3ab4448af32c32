"""RMSNorm without its gain, and causal self-attention with smeared keys and rotary positions: forward and backward.

Gains are folded into the matrices that read the result (see `model.Folded`), which saves a pass over the activations (Zhang &
Sennrich 2019). Smeared keys: k_t <- k_t + m (k_{t-1} - k_t), with a learned m per channel. A key then contains the token before
it, so that a single layer can find where a token occurred and read what followed: the model learns copying early. Rotary
positions (Su et al. 2021) rotate neighbouring channels (2i, 2i+1), read as one complex number, by position * 10000^(-i / pairs).

Queries are processed in blocks, and a block reads only the keys up to its own end, which saves about a third of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pytest_crucible.local_model.config import Floats, Shape

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
    """Intermediate values for the backward pass: smearing's differences, rotated queries, keys and values, and weights by block.

    `last_key` (rows, width), unsmeared and unrotated, is for decoding that continues from here.
    """

    last_key: Floats
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
    last_key = keys[:, -1].copy()
    steps = keys[:, :-1] - keys[:, 1:]
    keys[:, 1:] += steps * smear
    # A view: multiplying complex numbers rotates the pairs of channels in place.
    rotated = qkv[:, :, : 2 * width].view(np.result_type(qkv.dtype, np.complex64))
    rotated *= rotations(shape, qkv.dtype)[:positions]
    heads = qkv.reshape(rows, positions, 3, shape.heads, shape.head).transpose(2, 0, 3, 1, 4)
    out = np.empty((rows, positions, shape.heads, shape.head), qkv.dtype)
    attended = AttentionTrace(
        last_key, steps, heads[0], heads[1], heads[2], [], [], out.reshape(rows * positions, width)
    )
    for start, end in _blocks(positions):
        exponents, inverse = _block(heads[0][:, :, start:end], heads[1][:, :, :end], start)
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
    for (start, end), exponents, inverse in zip(_blocks(positions), attended.exponents, attended.inverse, strict=True):
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


def _blocks(positions: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, positions)) for start in range(0, positions, _BLOCK)]


def _block(queries: Floats, keys: Floats, start: int) -> tuple[Floats, Floats]:
    """Return unnormalised softmax weights of a block of queries, and the reciprocals of their sums."""
    scores = queries @ keys.swapaxes(2, 3)
    scores[..., start:] += _future(queries.shape[2], scores.dtype)
    # Subtracting the maximum keeps exp from overflowing.
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    return scores, 1 / scores.sum(axis=-1, keepdims=True)


@lru_cache(maxsize=16)
def _future(size: int, dtype: DTypeLike) -> Floats:
    mask = np.triu(np.full((size, size), -np.inf, dtype), k=1)
    mask.flags.writeable = False
    return mask
