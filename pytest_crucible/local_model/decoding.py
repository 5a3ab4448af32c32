"""Token-by-token decoding of many rows at once, with cached keys and values, and equal numbers for equal rows.

Libraries round a matrix product differently for different sizes, and for different places within a matrix. So that a
row does not depend on its neighbours, every product here is of one row (multiply_by_row), and attention goes over
blocks of 64 positions of one head, the last one padded: sizes never depend on the batch. Rows of several adapters share the
products with the base's matrices, and each adds those with its own factors. Prompts are read before, one by one and with merged
matrices (`reading`). Each row's token is chosen on its own, by inverting its cumulative distribution in the order of token ids, in
double precision.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.config import Floats, Integers, Shape
from pytest_crucible.local_model.model import Folded, Layer, normalise, rotations
from pytest_crucible.quick_dataclass import dataclass

# Every row's attention runs in blocks of this size, so that sizes never depend on other rows.
_BLOCK = 64


@dataclass(frozen=True, slots=True, eq=False)
class Decodable:
    """Weights for decoding: an adapter merged into its base, for prompts; the base, and the factors added to it, for tokens.

    `factors` are those of each matrix that the adapter changes, gain and scale among them: (inputs, rank) and (rank, outputs).
    """

    merged: Folded
    base: Folded
    factors: Mapping[str, tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A row up to its next token: keys and values of each layer (heads, tokens, head), last keys, next logits."""

    weights: Decodable
    keys: list[Floats]
    values: list[Floats]
    last_keys: list[Floats]
    logits: Floats
    length: int


def multiply_by_row(x: Floats, matrix: Floats) -> Floats:
    """Return the product of x (rows, inputs) and a matrix, one row at a time."""
    # Batched over rows: matmul then calls one vector product a row, whatever the number of rows.
    product: Floats = np.matmul(x[:, None, :], matrix)[:, 0]
    return product


class Decoder:
    """Rows in slots 0 to `active` - 1, each at its own position and with its own adapter on one base.

    `put` fills the next slot, `step` moves all on by one token, `drop` frees a slot and moves the last row there, and `take`
    returns a row that `put` continues later.
    """

    def __init__(self, base: Folded, shape: Shape) -> None:
        self.folded, self.shape = base, shape
        self.active = 0
        self._row_weights: list[Decodable] = []
        self._groups: list[tuple[Decodable, Integers | slice]] = []
        self._rotations = rotations(shape, base.embedding.dtype)
        self._allocate(0, 0)

    def reserve(self, slots: int, positions: int) -> None:
        """Make room for `slots` rows of at most this many positions; rows that are there stay."""
        blocks = -(-positions // _BLOCK)
        if slots <= self._lengths.size and blocks <= self._blocks:
            return
        before = {name: getattr(self, name) for name in _STATES}
        self._allocate(max(slots, self._lengths.size), max(blocks, self._blocks))
        for name, state in before.items():
            getattr(self, name)[tuple(map(slice, state.shape))] = state

    def _allocate(self, slots: int, blocks: int) -> None:
        shape, dtype, self._blocks = self.shape, self.folded.embedding.dtype, blocks
        room = (shape.layers, slots, shape.heads, blocks * _BLOCK)
        self._keys = np.zeros((*room, shape.head), dtype)
        # One more column, always 1: the product with it is the sum of the weights, by which the others are divided.
        self._values = np.zeros((*room, shape.head + 1), dtype)
        self._values[..., shape.head] = 1
        self._last_keys = np.zeros((shape.layers, slots, shape.width), dtype)
        self._hidden = np.full((slots, blocks * _BLOCK), -np.inf, dtype)
        self._lengths = np.zeros(slots, np.int64)

    def put(self, row: Prefilled) -> int:
        """Start or continue a row and return its slot."""
        slot = self.active
        for layer in range(self.shape.layers):
            self._keys[layer, slot, :, : row.length] = row.keys[layer]
            self._values[layer, slot, :, : row.length, : self.shape.head] = row.values[layer]
            self._last_keys[layer, slot] = row.last_keys[layer]
        self._hidden[slot] = -np.inf
        self._hidden[slot, : row.length] = 0
        self._lengths[slot] = row.length
        self._row_weights[slot:] = [row.weights]
        self.active += 1
        self._group_rows()
        return slot

    def take(self, slot: int, logits: Floats) -> Prefilled:
        """Drop a row, whose next logits are given, and return a copy of it."""
        length = int(self._lengths[slot])
        row = Prefilled(
            weights=self._row_weights[slot],
            keys=list(self._keys[:, slot, :, :length].copy()),
            values=list(self._values[:, slot, :, :length, : self.shape.head].copy()),
            last_keys=list(self._last_keys[:, slot].copy()),
            logits=logits.copy(),
            length=length,
        )
        self.drop(slot)
        return row

    def drop(self, slot: int) -> None:
        """End a row; the last row takes its slot."""
        self.active -= 1
        # Moving the last row into the gap keeps the active rows contiguous.
        if slot != self.active:
            length = self._lengths[self.active]
            self._keys[:, slot, :, :length] = self._keys[:, self.active, :, :length]
            self._values[:, slot, :, :length] = self._values[:, self.active, :, :length]
            for row_state in (self._hidden, self._lengths):
                row_state[slot] = row_state[self.active]
            self._last_keys[:, slot] = self._last_keys[:, self.active]
        self._row_weights[slot] = self._row_weights[self.active]
        self._row_weights.pop()
        self._group_rows()

    def clear(self) -> None:
        """End all rows."""
        self.active = 0
        self._row_weights.clear()
        self._groups.clear()

    def _group_rows(self) -> None:
        """Find the rows of each adapter; in most batches all are of one."""
        slots: dict[Decodable, list[int]] = {}
        for slot, weights in enumerate(self._row_weights):
            if weights.factors:
                slots.setdefault(weights, []).append(slot)
        self._groups = [
            (weights, slice(None) if len(own) == self.active else np.array(own)) for weights, own in slots.items()
        ]

    def step(self, tokens: Integers) -> Floats:
        """Return logits (active, vocabulary) after one more token in each row."""
        rows = np.arange(self.active)
        positions = self._lengths[: self.active]
        self._hidden[rows, positions] = 0
        x = self.folded.embedding[tokens]
        for index, layer in enumerate(self.folded.layers):
            name = f"layers.{index}."
            qkv = self._multiply(normalise(x)[0], layer.qkv, name + "qkv")
            x += self._multiply(self._attend(index, layer, qkv, rows, positions), layer.out, name + "out")
            up = self._multiply(normalise(x)[0], layer.up, name + "up")
            np.maximum(up, 0, out=up)
            x += self._multiply(np.square(up, out=up), layer.down, name + "down")
        self._lengths[: self.active] += 1
        return self._multiply(normalise(x)[0], self.folded.unembedding, "unembedding")

    def _multiply(self, x: Floats, matrix: Floats, name: str) -> Floats:
        """Return the products of rows with a matrix of the base, and with what each row's adapter adds to it."""
        product = multiply_by_row(x, matrix)
        for weights, rows in self._groups:
            if name in weights.factors:
                down, up = weights.factors[name]
                product[rows] += multiply_by_row(multiply_by_row(x[rows], down), up)
        return product

    def _attend(self, layer_index: int, layer: Layer, qkv: Floats, rows: Integers, positions: Integers) -> Floats:
        """Return attention of one new position in each row, after caching its key and value."""
        count, width, shape = len(rows), self.shape.width, self.shape
        keys = qkv[:, width : 2 * width]
        step = self._last_keys[layer_index, :count] - keys
        self._last_keys[layer_index, :count] = keys
        # The same smearing as in `attention.attend`, with the previous key kept from the last step.
        keys += step * layer.smear
        rotated = qkv[:, : 2 * width].view(self._rotations.dtype)
        rotated *= self._rotations[positions]
        query, key, value = qkv.reshape(count, 3, shape.heads, shape.head).swapaxes(0, 1)
        self._keys[layer_index, rows, :, positions] = key
        self._values[layer_index, rows, :, positions, : shape.head] = value
        blocks = int(positions.max()) // _BLOCK + 1
        size = (count, shape.heads, blocks, _BLOCK, -1)
        cached = slice(0, blocks * _BLOCK)
        scores = self._keys[layer_index, :count, :, cached].reshape(size) @ query[:, :, None, :, None]
        weights = self._weights(scores.reshape(count, shape.heads, -1), self._hidden[:count, None, cached])
        parts = weights.reshape(count, shape.heads, blocks, 1, _BLOCK) @ self._values[
            layer_index, :count, :, cached
        ].reshape(size)
        mixed = np.add.reduce(parts, axis=2)[:, :, 0]
        out: Floats = mixed[..., : shape.head] / mixed[..., shape.head :]
        return out.reshape(count, width)

    def _weights(self, scores: Floats, hidden: Floats) -> Floats:
        """Return softmax weights before they are divided by their sum."""
        scores += hidden
        scores -= scores.max(axis=-1, keepdims=True)
        return np.exp(scores, out=scores)


_STATES = ("_keys", "_values", "_last_keys", "_hidden", "_lengths")


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The restriction of each row's distribution: arrays of one number per row.

    Temperature 0 takes the most probable token (the first of equals). `top_k` (-1: all) keeps the k most probable ones;
    `top_p` then keeps the fewest of these whose probabilities sum to at least `top_p`. Among equals lower ids come
    first.
    """

    temperature: Floats
    top_k: Integers
    top_p: Floats

    def at(self, rows: Integers | slice) -> Narrowing:
        """Return the restriction of some rows."""
        return Narrowing(self.temperature[rows], self.top_k[rows], self.top_p[rows])


def choose(logits: Floats, uniforms: Floats, narrowing: Narrowing) -> Integers:
    """Return one token per row of logits (rows, vocabulary).

    >>> rows = Narrowing(np.array([1.0, 1.0, 0.0]), np.array([-1, 1, -1]), np.ones(3))
    >>> choose(np.log(np.array([[1.0, 3.0]] * 3)), np.array([0.2, 0.2, 0.2]), rows).tolist()
    [0, 1, 1]
    """
    greedy = narrowing.temperature == 0
    if greedy.all():
        return _greatest(logits)
    # At a very low temperature all but the greatest overflow to -inf, which is right.
    with np.errstate(over="ignore"):
        scaled = (logits - logits.max(axis=1, keepdims=True)) / np.where(greedy, 1, narrowing.temperature)[:, None]
    probabilities = np.exp(scaled, dtype=np.float64)
    narrowed = np.flatnonzero(~greedy & ((narrowing.top_k > 0) | (narrowing.top_p < 1)))
    if narrowed.size:
        probabilities[narrowed] *= _keep_mask(probabilities[narrowed], narrowing.at(narrowed))
    tokens = _inverse(probabilities, uniforms)
    return np.where(greedy, _greatest(logits), tokens) if greedy.any() else tokens


def log_softmax(logits: Floats) -> Floats:
    """Return the log-probabilities of all tokens, row by row."""
    shifted: Floats = logits - logits.max(axis=1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def most_probable(logprobs: Floats, count: int) -> tuple[Integers, Floats]:
    """Return the most probable tokens of each row and their log-probabilities, descending.

    Among equals lower ids come first.
    """
    tokens = np.argsort(-logprobs, axis=1, kind="stable")[:, :count]
    return tokens.astype(np.int32), np.take_along_axis(logprobs, tokens, axis=1)


def _greatest(logits: Floats) -> Integers:
    tokens: Integers = logits.argmax(axis=1)
    return tokens


def _keep_mask(probabilities: Floats, narrowing: Narrowing) -> NDArray[np.bool_]:
    # A stable sort keeps lower ids first among equals.
    order = np.argsort(-probabilities, axis=1, kind="stable")
    ordered = np.take_along_axis(probabilities, order, axis=1)
    ranks = np.arange(ordered.shape[1])
    within = (ranks < narrowing.top_k[:, None]) | (narrowing.top_k < 1)[:, None]
    ordered *= within
    cumulative = np.cumsum(ordered, axis=1)
    before = cumulative - ordered
    within &= (before < narrowing.top_p[:, None] * cumulative[:, -1:]) | (ranks == 0) | (narrowing.top_p >= 1)[:, None]
    mask = np.empty_like(within)
    np.put_along_axis(mask, order, within, axis=1)
    return mask


def _inverse(probabilities: Floats, uniforms: Floats) -> Integers:
    """Return the first token whose cumulative probability exceeds the uniform number's share of the total."""
    cumulative = np.cumsum(probabilities, axis=1)
    total = cumulative[:, -1]
    # Rounding could reach the total itself, which no token exceeds.
    thresholds = np.minimum(uniforms * total, np.nextafter(total, 0))
    tokens: Integers = (cumulative <= thresholds[:, None]).sum(axis=1)
    return tokens
