"""Asks a model for the log-probabilities of texts, to test whether it has memorised a dataset."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_crucible.backends.protocol import ScoresPrompts
from pytest_crucible.records.errors import BackendError, SpecError
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.memorisation import (
    MinKTest,
    OrderTest,
    compare_min_k,
    lowest_mean,
    order_test,
)

SEPARATOR = "\n\n"
# The smallest p of 99 orders is 0.01.
ORDERS = 99
# Samples that are scored together; half as many where they do not fit into the model's context.
_SHARD = 16


async def run_order_test(
    backend: ScoresPrompts, texts: Sequence[str], *, orders: int = ORDERS, seed: int = 0
) -> OrderTest:
    """Return whether the order of the texts is more probable than random orders. Raises SpecError if no two fit together.

    The texts are divided into shards that fit into the model's context, and each shard is shuffled by itself. The statistic is the
    sum of the log-probabilities of all shards: under the null hypothesis every order of every shard is equally probable, so that
    the p-value is exact.
    """
    shards = await _find_shards(backend, texts)
    generator = np.random.default_rng(seed)
    own, others = await _score_all(backend, shards), []
    for _ in range(orders):
        shuffled = [[shard[k] for k in generator.permutation(len(shard))] for shard in shards]
        others.append(await _score_all(backend, shuffled))
    return order_test(own, others)


async def run_min_k_test(
    candidate: ScoresPrompts, base: ScoresPrompts, texts: Sequence[str], fresh: Sequence[str]
) -> MinKTest:
    """Return whether the texts have become more probable from base to candidate than fresh ones have."""
    return compare_min_k(await _gains(candidate, base, texts), await _gains(candidate, base, fresh))


async def _gains(candidate: ScoresPrompts, base: ScoresPrompts, texts: Sequence[str]) -> list[float]:
    gains = []
    for text in texts:
        try:
            gains.append(lowest_mean(await candidate.score_prompt(text)) - lowest_mean(await base.score_prompt(text)))
        # A text of one token, which has nothing before it.
        except NotEnoughData:
            continue
    return gains


async def _find_shards(backend: ScoresPrompts, texts: Sequence[str]) -> list[list[str]]:
    size = min(_SHARD, len(texts))
    while size >= 2:
        shards = [list(texts[start : start + size]) for start in range(0, len(texts), size)]
        # The last one may be of one text, which has one order.
        shards = [shard for shard in shards if len(shard) > 1]
        try:
            # The longest text decides whether all fit.
            for shard in sorted(shards, key=lambda shard: -sum(map(len, shard)))[:3]:
                await backend.score_prompt(SEPARATOR.join(shard))
        except BackendError as error:
            if size == 2:
                raise SpecError(f"no two samples can be scored together: {error}") from error
            size //= 2
            continue
        return shards
    raise SpecError("an order needs at least two samples: choose a larger dataset")


async def _score_all(backend: ScoresPrompts, shards: Sequence[Sequence[str]]) -> float:
    total = 0.0
    for shard in shards:
        total += float(np.sum(await backend.score_prompt(SEPARATOR.join(shard))))
    return total
