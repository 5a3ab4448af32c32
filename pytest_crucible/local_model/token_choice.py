"""Choice of tokens from logits: temperature, top-k, top-p, and one uniform number for each draw.

Each row is chosen on its own, by inverting its cumulative distribution in the order of token ids, in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_crucible.local_model.config import Floats, Integers


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
