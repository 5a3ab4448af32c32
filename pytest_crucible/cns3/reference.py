"""Frozen reference statistics of embeddings, by the scorer that they belong to."""

from __future__ import annotations

import numpy as np

_FROZEN: dict[str, np.ndarray] = {}


def variances_of(scorer: str) -> np.ndarray | None:
    """The variance of each dimension for the scorer of that identity; None where nothing is frozen for it."""
    return _FROZEN.get(scorer)
