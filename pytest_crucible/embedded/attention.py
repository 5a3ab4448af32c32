"""Causal self-attention over whole rows, forward and backward, with smeared keys and rotary positions.

Smeared keys: k_t <- k_t + m (k_{t-1} - k_t), m per channel and learned. A key then says what stood before it, so that a
single layer can find where a token occurred and read what followed: copying is learnt early. Rotary positions (Su et al.
2021) turn neighbouring channels (2i, 2i+1), read as one complex number, by position * 10000^(-i / pairs).

Queries are taken in blocks, and a block looks only at the keys up to its own end: about a third of the work is saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pytest_crucible.embedded.shape import Floats, Shape

_BLOCK = 64
_BASE = 10_000.0


@dataclass(slots=True)
class Attended:
    """What backward needs: smearing's differences, turned queries, keys and values, and the weights by block.

    `last_key` (rows, width), unsmeared and unturned, is for decoding that goes on from here.
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
    """Complex factors of queries and keys, (context, width): queries' hold 1 / sqrt(head) as well."""
    pairs = shape.head // 2
    angles = np.arange(shape.context)[:, None] * _BASE ** (-np.arange(pairs) / pairs)
    turned = np.tile(np.exp(1j * angles), (1, 2 * shape.heads))
    turned[:, : shape.width // 2] *= shape.head**-0.5
    turned = turned.astype(np.result_type(dtype, np.complex64))
    turned.flags.writeable = False
    return turned


def attend(qkv: Floats, smear: Floats, shape: Shape) -> Attended:
    """Attention over fused queries, keys, values (rows, positions, 3 * width), which are overwritten."""
    rows, positions, width = qkv.shape[0], qkv.shape[1], shape.width
    keys = qkv[:, :, width : 2 * width]
    last_key = keys[:, -1].copy()
    steps = keys[:, :-1] - keys[:, 1:]
    keys[:, 1:] += steps * smear
    turned = qkv[:, :, : 2 * width].view(np.result_type(qkv.dtype, np.complex64))
    turned *= rotations(shape, qkv.dtype)[:positions]
    heads = qkv.reshape(rows, positions, 3, shape.heads, shape.head).transpose(2, 0, 3, 1, 4)
    out = np.empty((rows, positions, shape.heads, shape.head), qkv.dtype)
    attended = Attended(last_key, steps, heads[0], heads[1], heads[2], [], [], out.reshape(rows * positions, width))
    for start, end in _blocks(positions):
        exponents, inverse = _block(heads[0][:, :, start:end], heads[1][:, :, :end], start)
        mixed = exponents @ heads[2][:, :, :end]
        np.multiply(mixed, inverse, out=out[:, start:end].transpose(0, 2, 1, 3))
        attended.exponents.append(exponents)
        attended.inverse.append(inverse)
    return attended


def attend_backward(d_out: Floats, attended: Attended, smear: Floats, shape: Shape) -> tuple[Floats, Floats]:
    """Gradients of the fused queries, keys, values (rows * positions, 3 * width) and of the smear (width,).

    With e the exponents and r one over their sum, the softmax is p = e r, and its backward, dS = p (dP - sum(dP p)),
    becomes e (r dP - r sum(dO O)): the division by the sum never touches anything (positions, positions).
    """
    queries, keys, values = attended.queries, attended.keys, attended.values
    rows, _, positions, _ = queries.shape
    split = (rows, positions, shape.heads, shape.head)
    d_heads = d_out.reshape(split).transpose(0, 2, 1, 3)
    along = np.einsum("bthd,bthd->bht", d_out.reshape(split), attended.out.reshape(split))[..., None]
    d_qkv = np.zeros((rows, positions, 3, shape.heads, shape.head), d_out.dtype)
    d_queries, d_keys, d_values = d_qkv.transpose(2, 0, 3, 1, 4)
    for (start, end), exponents, inverse in zip(_blocks(positions), attended.exponents, attended.inverse, strict=True):
        d_mixed = d_heads[:, :, start:end] * inverse
        d_scores = d_mixed @ values[:, :, :end].swapaxes(2, 3)
        d_scores -= along[:, :, start:end] * inverse
        d_scores *= exponents
        d_values[:, :, :end] += exponents.swapaxes(2, 3) @ d_mixed
        d_keys[:, :, :end] += d_scores.swapaxes(2, 3) @ queries[:, :, start:end]
        d_queries[:, :, start:end] = d_scores @ keys[:, :, :end]
    fused = d_qkv.reshape(rows, positions, 3 * shape.width)
    return fused.reshape(rows * positions, -1), _unturned(fused, attended.steps, smear, shape)


def _unturned(d_qkv: Floats, steps: Floats, smear: Floats, shape: Shape) -> Floats:
    """Take gradients of queries and keys back through rotation and smearing, in place; the smear's own is returned."""
    turned = d_qkv[:, :, : 2 * shape.width].view(np.result_type(d_qkv.dtype, np.complex64))
    turned *= rotations(shape, d_qkv.dtype)[: d_qkv.shape[1]].conj()
    d_keys = d_qkv[:, :, shape.width : 2 * shape.width]
    d_smear: Floats = np.einsum("btw,btw->w", d_keys[:, 1:], steps)
    moved = d_keys[:, 1:] * smear
    d_keys[:, 1:] -= moved
    d_keys[:, :-1] += moved
    return d_smear


def _blocks(positions: int) -> list[tuple[int, int]]:
    return [(start, min(start + _BLOCK, positions)) for start in range(0, positions, _BLOCK)]


def _block(queries: Floats, keys: Floats, start: int) -> tuple[Floats, Floats]:
    """Unnormalised softmax weights of a block of queries, and one over their sums."""
    scores = queries @ keys.swapaxes(2, 3)
    scores[..., start:] += _future(queries.shape[2], scores.dtype)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    return scores, 1 / scores.sum(axis=-1, keepdims=True)


@lru_cache(maxsize=16)
def _future(size: int, dtype: DTypeLike) -> Floats:
    mask = np.triu(np.full((size, size), -np.inf, dtype), k=1)
    mask.flags.writeable = False
    return mask
