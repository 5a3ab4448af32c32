"""Eras of fifty candidates that are exactly at the margin: how often at least one of them passes.

Bounds are those that decide margins (`stats.difference_bounds`), so that the era's shares and the bounds are tested together.
"""

from __future__ import annotations

import numpy as np

from pytest_crucible import stats
from pytest_crucible.features.registry.rules import alpha_of_look

ALPHA, MARGIN = 0.05, 0.05
CANDIDATES, SAMPLES = 50, 240
Floats = np.ndarray


def one_passes(rng: np.random.Generator, *, era: bool, shared: bool) -> bool:
    """Return whether any candidate of one production version is met, each decided at its share or at alpha.

    All candidates meet the same answers of production where these are `shared`, as cached ones are, and else new ones.
    """
    baseline = _draw(rng, 0.8)
    for look in range(1, CANDIDATES + 1):
        # Independent of production, sample by sample: its accuracy is lower by the margin.
        theirs, ours = baseline if shared else _draw(rng, 0.8), _draw(rng, 0.8 - MARGIN)
        alpha = alpha_of_look(ALPHA, look) if era else ALPHA
        if stats.difference_bounds(ours, theirs, kind="binary", alpha=alpha).low > -MARGIN:
            return True
    return False


def _draw(rng: np.random.Generator, accuracy: float) -> Floats:
    return (rng.random(SAMPLES) < accuracy).astype(float)
