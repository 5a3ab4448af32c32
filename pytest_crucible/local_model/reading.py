"""A prompt is read in pieces, so that other prompts are read between them, and a long one needs no more memory than a piece.

The numbers are those of the whole prompt, bit for bit. OpenBLAS rounds a row of a matrix product by its place among 12 or 16 rows
on some processors, so pieces start at multiples of 48 positions; the last piece holds the rest, since a small matrix is rounded
differently. Attention goes over blocks of 64 queries, as in `model.attend`, and pieces start with a block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_crucible.local_model.config import Floats, Shape
from pytest_crucible.local_model.decoding import Decodable, Prefilled, multiply_by_row
from pytest_crucible.local_model.model import blocks_of, normalise, rotations, run_mlp, weigh_block

PIECE = 192
"""Positions of a piece; the last one has up to twice as many."""


class PromptReading:
    """A prompt that is read piece by piece."""

    def __init__(self, weights: Decodable, shape: Shape, prompt: Sequence[int]) -> None:
        self._weights, self._shape = weights, shape
        self._tokens = np.array(prompt, np.int64)
        dtype = weights.merged.embedding.dtype
        room = (shape.layers, shape.heads, len(prompt), shape.head)
        self._keys, self._values = np.empty(room, dtype), np.empty(room, dtype)
        # Before smearing and rotation, of each layer: what the next key is smeared with.
        self._last_keys = np.zeros((shape.layers, shape.width), dtype)
        self._start = 0

    def read_piece(self) -> Prefilled | None:
        """Read the next piece; return the row up to its next token after the last one."""
        end = len(self._tokens) if len(self._tokens) - self._start < 2 * PIECE else self._start + PIECE
        merged = self._weights.merged
        x = merged.embedding[self._tokens[self._start : end]]
        for index, layer in enumerate(merged.layers):
            run_mlp(layer, x, self._attend(index, normalise(x)[0] @ layer.qkv, layer.smear))
        self._start = end
        return self._finish(x[-1:]) if end == len(self._tokens) else None

    def _finish(self, x: Floats) -> Prefilled:
        return Prefilled(
            weights=self._weights,
            keys=list(self._keys),
            values=list(self._values),
            last_keys=list(self._last_keys),
            logits=multiply_by_row(normalise(x)[0], self._weights.merged.unembedding)[0],
            length=len(self._tokens),
        )

    def _attend(self, index: int, qkv: Floats, smear: Floats) -> Floats:
        """Return one layer's attention of the piece's positions, after keeping their keys and values."""
        shape, start, end = self._shape, self._start, self._start + len(qkv)
        self._smear(index, qkv[:, shape.width : 2 * shape.width], smear)
        rotated = qkv[:, : 2 * shape.width].view(np.result_type(qkv.dtype, np.complex64))
        rotated *= rotations(shape, qkv.dtype)[start:end]
        queries, keys, values = qkv.reshape(len(qkv), 3, shape.heads, shape.head).transpose(1, 2, 0, 3)
        self._keys[index, :, start:end], self._values[index, :, start:end] = keys, values
        out = np.empty((len(qkv), shape.heads, shape.head), qkv.dtype)
        for first, last in blocks_of(len(qkv)):
            before = slice(0, start + last)
            exponents, inverse = weigh_block(queries[:, first:last], self._keys[index, :, before], start + first)
            np.multiply(exponents @ self._values[index, :, before], inverse, out=out[first:last].transpose(1, 0, 2))
        return out.reshape(len(qkv), shape.width)

    def _smear(self, index: int, keys: Floats, smear: Floats) -> None:
        last = keys[-1].copy()
        steps = keys[:-1] - keys[1:]
        if self._start:
            keys[0] += (self._last_keys[index] - keys[0]) * smear
        keys[1:] += steps * smear
        self._last_keys[index] = last
