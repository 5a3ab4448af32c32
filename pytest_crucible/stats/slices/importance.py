"""Features that predict the difference between two arms: out-of-fold permutation importance (extra `[explain]`).

A model that predicts no better than on shuffled differences says nothing about its features: then the result is None.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes
from pytest_crucible.stats.slices.candidates import Feature

FOLDS = 5
# With 19 shuffles the true order is the best of 20 in one of 20 suites without an effect.
SHUFFLES = 19
_TREES = 40
_DEPTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Importance:
    """The loss of prediction of held-out differences if one feature is permuted: a part of their variance."""

    feature: str
    value: float


def has_scikit_learn() -> bool:
    """Return whether the extra is installed."""
    return importlib.util.find_spec("sklearn") is not None


def rank_features(
    differences: Array, features: Sequence[Feature], *, groups: Codes | None = None, seed: int = 0
) -> tuple[Importance, ...] | None:
    """Return the importance of each feature, largest first; None if the features predict no better than shuffled differences.

    Folds keep groups whole. Explained variance and importances are of held-out samples.
    """
    if not features:
        return None
    table = np.stack([feature.codes for feature in features], axis=1).astype(np.float64)
    rng = np.random.default_rng(seed)
    units = np.arange(len(differences)) if groups is None else np.unique(groups, return_inverse=True)[1]
    folds = rng.permutation(units.max() + 1)[units] % FOLDS
    models = _fit_folds(table, differences, folds, seed)
    explained = _explained_share(table, differences, folds, models)
    for _ in range(SHUFFLES):
        shuffled = rng.permutation(differences)
        if _explained_share(table, shuffled, folds, _fit_folds(table, shuffled, folds, seed)) >= explained:
            return None
    values = []
    for column, feature in enumerate(features):
        permuted = table.copy()
        permuted[:, column] = rng.permutation(permuted[:, column])
        values.append(
            Importance(feature=feature.name, value=explained - _explained_share(permuted, differences, folds, models))
        )
    return tuple(sorted(values, key=lambda each: -each.value))


def _fit_folds(table: Array, differences: Array, folds: Codes, seed: int) -> list[Any]:
    from sklearn.ensemble import ExtraTreesRegressor

    return [
        ExtraTreesRegressor(_TREES, max_depth=_DEPTH, min_samples_leaf=5, random_state=seed).fit(
            table[folds != fold], differences[folds != fold]
        )
        for fold in range(FOLDS)
    ]


def _explained_share(table: Array, differences: Array, folds: Codes, models: Sequence[Any]) -> float:
    """Return the share of the variance of held-out differences that is predicted; below 0 for worse than their mean."""
    predicted = np.empty_like(differences)
    for fold, model in enumerate(models):
        predicted[folds == fold] = model.predict(table[folds == fold])
    variance = float(np.var(differences))
    return 1 - float(np.mean((differences - predicted) ** 2)) / variance if variance else 0.0
