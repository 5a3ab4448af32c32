"""A model so small that a test can make it: random weights, and a tokenizer of a few merges."""

from __future__ import annotations

import numpy as np

from base_model.gradients import initial_weights
from pytest_crucible.local_model.checkpoints import Adapter, LoraSpec
from pytest_crucible.local_model.config import Datum, Shape, Weights
from pytest_crucible.local_model.engine import Engine, Sampler
from pytest_crucible.local_model.tokens import Tokenizer

MERGES = tuple((32, letter) for letter in range(97, 117)) + tuple((letter, 101) for letter in range(97, 117))
TOKENIZER = Tokenizer(MERGES)
SHAPE = Shape(vocabulary=TOKENIZER.vocabulary, width=32, layers=2, heads=4, mlp=64, context=160)
SHA256 = "ab" * 32


def tiny_weights(shape: Shape = SHAPE, seed: int = 0, dtype: type[np.floating] = np.float32) -> Weights:
    """Weights with gains and smears that differ by channel. Replies are varied, and mostly of ASCII characters."""
    random = np.random.default_rng(seed)
    weights = {name: item.astype(dtype) for name, item in initial_weights(shape, seed).items()}
    for item in weights.values():
        item += 0.2 * random.normal(size=item.shape) * (1 if item.ndim == 1 else item.std())
    weights["embedding"] *= 20
    weights["embedding"][128:256] *= 0.05
    for layer in range(shape.layers):
        weights[f"layers.{layer}.out"] *= 3
        weights[f"layers.{layer}.down"] *= 3
    return weights


def tiny_engine(seed: int = 0) -> Engine:
    return Engine(TOKENIZER, SHAPE, tiny_weights(seed=seed), SHA256)


def adapted_sampler(engine: Engine, rank: int, seed: int = 0, **parts: bool) -> Sampler:
    """Weights with a random adapter, which changes the `parts` of LoraSpec."""
    adapter = Adapter.initial(LoraSpec(rank=rank, seed=seed, **parts), SHAPE)
    random = np.random.default_rng(seed)
    factors = {
        name: random.normal(0, 0.05, item.shape).astype(np.float32) if name.endswith(".B") else item
        for name, item in adapter.factors.items()
    }
    return Sampler(engine, Adapter(adapter.spec, factors))


def tiny_data(count: int = 3, seed: int = 0, length: int = 20) -> list[Datum]:
    """Rows of different lengths; the first third of each does not count."""
    random = np.random.default_rng(seed)
    data = []
    for size in range(length, length + count):
        tokens = random.integers(0, SHAPE.vocabulary, size + 1)
        weights = (np.arange(size) >= size // 3) * random.uniform(0.5, 1.5, size)
        data.append(Datum(tokens[:-1].tolist(), {"target_tokens": tokens[1:], "weights": weights}))
    return data
