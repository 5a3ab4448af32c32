"""Token by token, many rows at once, with a cache of keys and values; and always the same numbers for the same row.

Libraries round a product of matrices differently for different sizes, and for different places within a matrix. So that a
row cannot feel its neighbours, every product here is of one row (by_row), and attention goes over blocks of 64 positions of
one head, the last one padded: sizes never depend on the batch. Prompts run one by one through `model.forward`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_crucible.embedded.attention import rotations
from pytest_crucible.embedded.model import Folded, Layer, forward
from pytest_crucible.embedded.norms import normalised
from pytest_crucible.embedded.shape import Floats, Integers, Shape

_BLOCK = 64


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A prompt that has been read: keys and values of each layer (heads, tokens, head), last keys, next logits."""

    keys: list[Floats]
    values: list[Floats]
    last_keys: list[Floats]
    logits: Floats
    length: int


def by_row(x: Floats, matrix: Floats) -> Floats:
    """Product of x (rows, inputs) and a matrix, one row at a time."""
    product: Floats = np.matmul(x[:, None, :], matrix)[:, 0]
    return product


def prefill(folded: Folded, shape: Shape, prompt: list[int]) -> Prefilled:
    """Read a prompt."""
    trace = forward(folded, shape, np.array([prompt], np.int64))
    attended = [kept.attended for kept in trace.kept]
    return Prefilled(
        keys=[one.keys[0] for one in attended],
        values=[one.values[0] for one in attended],
        last_keys=[one.last_key[0] for one in attended],
        logits=by_row(trace.states[-1:], folded.unembedding)[0],
        length=len(prompt),
    )


class Decoder:
    """Rows in slots 0 to `active` - 1, each at its own position.

    `put` fills the next slot, `step` moves all on by one token, `drop` frees a slot and moves the last row there.
    """

    def __init__(self, folded: Folded, shape: Shape, slots: int, positions: int) -> None:
        """Room for rows of so many positions at most."""
        self.folded, self.shape = folded, shape
        self.active = 0
        dtype, self._blocks = folded.embedding.dtype, -(-positions // _BLOCK)
        room = (shape.layers, slots, shape.heads, self._blocks * _BLOCK)
        self._keys = np.zeros((*room, shape.head), dtype)
        # One more column, always 1: the product with it is the sum of the weights, by which the others are divided.
        self._values = np.zeros((*room, shape.head + 1), dtype)
        self._values[..., shape.head] = 1
        self._last_keys = np.zeros((shape.layers, slots, shape.width), dtype)
        self._hidden = np.full((slots, self._blocks * _BLOCK), -np.inf, dtype)
        self._lengths = np.zeros(slots, np.int64)
        self._rotations = rotations(shape, dtype)

    def put(self, prompt: Prefilled) -> int:
        """Let a prompt's row begin; its slot."""
        slot = self.active
        for layer in range(self.shape.layers):
            self._keys[layer, slot, :, : prompt.length] = prompt.keys[layer]
            self._values[layer, slot, :, : prompt.length, : self.shape.head] = prompt.values[layer]
            self._last_keys[layer, slot] = prompt.last_keys[layer]
        self._hidden[slot] = -np.inf
        self._hidden[slot, : prompt.length] = 0
        self._lengths[slot] = prompt.length
        self.active += 1
        return slot

    def drop(self, slot: int) -> None:
        """End a row; the last one takes its slot."""
        self.active -= 1
        if slot != self.active:
            length = self._lengths[self.active]
            self._keys[:, slot, :, :length] = self._keys[:, self.active, :, :length]
            self._values[:, slot, :, :length] = self._values[:, self.active, :, :length]
            for one in (self._hidden, self._lengths):
                one[slot] = one[self.active]
            self._last_keys[:, slot] = self._last_keys[:, self.active]

    def step(self, tokens: Integers) -> Floats:
        """Logits (active, vocabulary) after one more token in each row."""
        rows = np.arange(self.active)
        places = self._lengths[: self.active]
        self._hidden[rows, places] = 0
        x = self.folded.embedding[tokens]
        for at, layer in enumerate(self.folded.layers):
            x += by_row(self._attend(at, layer, by_row(normalised(x)[0], layer.qkv), rows, places), layer.out)
            up = by_row(normalised(x)[0], layer.up)
            np.maximum(up, 0, out=up)
            x += by_row(np.square(up, out=up), layer.down)
        self._lengths[: self.active] += 1
        return by_row(normalised(x)[0], self.folded.unembedding)

    def _attend(self, at: int, layer: Layer, qkv: Floats, rows: Integers, places: Integers) -> Floats:
        """Attention of one new position in each row, after its key and value have gone into the cache."""
        count, width, shape = len(rows), self.shape.width, self.shape
        keys = qkv[:, width : 2 * width]
        step = self._last_keys[at, :count] - keys
        self._last_keys[at, :count] = keys
        keys += step * layer.smear
        turned = qkv[:, : 2 * width].view(self._rotations.dtype)
        turned *= self._rotations[places]
        query, key, value = qkv.reshape(count, 3, shape.heads, shape.head).swapaxes(0, 1)
        self._keys[at, rows, :, places] = key
        self._values[at, rows, :, places, : shape.head] = value
        blocks = int(places.max()) // _BLOCK + 1
        size = (count, shape.heads, blocks, _BLOCK, -1)
        seen = slice(0, blocks * _BLOCK)
        scores = self._keys[at, :count, :, seen].reshape(size) @ query[:, :, None, :, None]
        weights = self._weights(scores.reshape(count, shape.heads, -1), self._hidden[:count, None, seen])
        parts = weights.reshape(count, shape.heads, blocks, 1, _BLOCK) @ self._values[at, :count, :, seen].reshape(size)
        mixed = np.add.reduce(parts, axis=2)[:, :, 0]
        out: Floats = mixed[..., : shape.head] / mixed[..., shape.head :]
        return out.reshape(count, width)

    def _weights(self, scores: Floats, hidden: Floats) -> Floats:
        """Softmax weights before they are divided by their sum."""
        scores += hidden
        scores -= scores.max(axis=-1, keepdims=True)
        return np.exp(scores, out=scores)
