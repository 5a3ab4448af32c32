"""Drift of texts, as unit vectors: the maximum mean discrepancy, with permuted labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.data_drift.result import FieldDrift
from pytest_crucible.stats.interval import NotEnoughData

# With the observed order 2,000, so that p-values are multiples of 0.0005.
DRAWS = 1999
# Permutations of one matrix product, which bounds its memory.
_BATCH = 100
_ROUNDING = 1e-9


def compare_vectors(vectors: Any, old: int, *, seed: int = 0, draws: int = DRAWS) -> FieldDrift:
    """Return the permutation test of the maximum mean discrepancy with the kernel x . y (Gretton et al. 2012, equation 5).

    `vectors` is an array or sparse matrix with a row for each text, the `old` ones first. For unit vectors the kernel is the
    cosine, and the statistic is the squared distance of the two means. p = (1 + permutations as extreme) / (1 + draws).
    """
    number = vectors.shape[0]
    if min(old, number - old) < 2:
        raise NotEnoughData("a comparison needs at least 2 texts in each sample")
    weights = np.concatenate([np.full(old, 1 / old), np.full(number - old, -1 / (number - old))])
    statistic = _squared_distances(vectors, weights[:, None])[0]
    generator = np.random.default_rng(seed)
    extreme = 0
    for start in range(0, draws, _BATCH):
        columns = np.tile(weights[:, None], min(_BATCH, draws - start))
        drawn = _squared_distances(vectors, generator.permuted(columns, axis=0))
        extreme += int((drawn >= statistic * (1 - _ROUNDING)).sum())
    return FieldDrift(
        test="MMD, permuted",
        statistic=float(statistic),
        p_value=(1 + extreme) / (1 + draws),
        n=(old, number - old),
        seed=seed,
    )


def _squared_distances(vectors: Any, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the squared length of the weighted sum of the vectors, for each column of weights."""
    sums = np.asarray(vectors.T @ weights)
    lengths: npt.NDArray[np.float64] = np.einsum("ij,ij->j", sums, sums)
    return lengths
