"""Explanations of a model over all rows: permutation importance of features, and interactions of pairs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.features.explanation.numeric.inputs import (
    Feature,
    Inputs,
    Predict,
    as_estimator,
    check_count,
    load_package,
    make_frame,
    read_inputs,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.arrays import ROUNDING, Array

if TYPE_CHECKING:
    import pandas as pd

# Rows of one call of a model: 100,000 rows of ten features take 8 MB.
_BATCH = 100_000
# Mean predictions of so many rows sum up as many rounding errors.
_ROUNDING = 16 * ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Importances:
    """The loss of a score when the values of a feature are shuffled among the rows."""

    names: tuple[str, ...]
    losses: Array
    """Features x repeats."""
    score: float
    """The score of the rows as they are."""

    @property
    def means(self) -> Array:
        """The mean loss of each feature."""
        return np.asarray(self.losses.mean(axis=1))

    def to_frame(self) -> pd.DataFrame:
        """Return feature, importance and the standard deviation over the repeats, in the order of the features."""
        columns = {"importance": self.means, "standard_deviation": self.losses.std(axis=1)}
        return make_frame({"feature": list(self.names), **columns})


def permutation_importance(
    predict: Predict,
    rows: Any,
    outcomes: Any,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    repeats: int = 5,
    scoring: str | Callable[..., float] = "r2",
) -> Importances:
    """Return the importance of each feature (Breiman 2001), by scikit-learn (extra `[explain]`).

    `outcomes` are the observed values of what is predicted, not predictions; `scoring` is a scorer of scikit-learn, such as
    "neg_mean_squared_error".
    """
    inputs = read_inputs("explain.permutation_importance", predict, rows, names, seed)
    observed = _read_outcomes(inputs, outcomes)
    check_count(inputs.where, "repeats", repeats, 1)
    inspection = load_package(inputs.where, "sklearn.inspection", "scikit-learn")
    estimator, scorer = as_estimator(inputs.predict), _read_scorer(inputs.where, scoring)
    score = _score(inputs, estimator, scorer, observed, scoring)
    result = inspection.permutation_importance(
        estimator, inputs.rows, observed, scoring=scorer, n_repeats=repeats, random_state=inputs.seed
    )
    return Importances(names=inputs.names, losses=np.asarray(result.importances), score=score)


def _score(inputs: Inputs, estimator: Any, scorer: Any, observed: Array, scoring: Any) -> float:
    try:
        return float(scorer(estimator, inputs.rows, observed))
    except AttributeError as error:  # a scorer of classes, which calls predict_proba
        raise SpecError(
            f"{inputs.where}: scoring is {scoring!r}, which scores classifiers; write one for numbers, such as "
            "'neg_mean_squared_error', or a function of estimator, rows and outcomes"
        ) from error


def _read_outcomes(inputs: Inputs, outcomes: Any) -> Array:
    try:
        observed = np.array(outcomes, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpecError(f"{inputs.where}: outcomes has values that are not numbers; code classes as 0 and 1") from None
    if observed.shape != (len(inputs.rows),):
        raise SpecError(
            f"{inputs.where}: outcomes has the shape {observed.shape} for {len(inputs.rows)} rows; give one number for each row"
        )
    if not np.isfinite(observed).all():
        raise SpecError(f"{inputs.where}: outcomes has NaN or an infinite value; fill or drop such rows")
    if np.ptp(observed) == 0:
        raise SpecError(
            f"{inputs.where}: outcomes has one value ({observed[0]:g}), so that no feature can matter; give outcomes that vary"
        )
    return observed


def _read_scorer(where: str, scoring: Any) -> Any:
    from sklearn.metrics import get_scorer

    try:
        return get_scorer(scoring)
    except ValueError as error:
        raise SpecError(
            f"{where}: scoring is {scoring!r}; expected a scorer of scikit-learn, such as 'neg_mean_squared_error'"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HStatistics:
    """Interactions of pairs of features."""

    pairs: tuple[tuple[str, str], ...]
    values: Array
    """H of each pair: the share of the pair's joint effect, as standard deviations, that is neither feature's own.

    0 for additive effects; NaN for a pair without an effect.
    """
    strengths: Array
    """The standard deviation of the interaction, in units of the prediction: H of a pair with a small effect may be large."""
    n: int
    """Rows that were used."""

    def to_frame(self) -> pd.DataFrame:
        """Return feature, other, h and strength."""
        firsts, seconds = zip(*self.pairs, strict=True)
        return make_frame({"feature": firsts, "other": seconds, "h": self.values, "strength": self.strengths})


def h_statistic(
    predict: Predict,
    rows: Any,
    features: Sequence[Feature] | None = None,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    sample: int | None = 500,
) -> HStatistics:
    """Return H of each pair of features, by default of all (Friedman & Popescu 2008, equation 44), at the rows themselves.

    It predicts n^2 rows for each feature and each pair: of more than `sample` rows so many are drawn; None uses all.
    """
    inputs = read_inputs("explain.h_statistic", predict, rows, names, seed).draw(sample)
    chosen = inputs.names if features is None else features
    if isinstance(chosen, str | int) or len(chosen) < 2:
        raise SpecError(f"{inputs.where}: features is {chosen!r}; expected at least two features")
    columns = [inputs.varying_column(feature) for feature in chosen]
    if len(set(columns)) < len(columns):
        raise SpecError(f"{inputs.where}: features is {chosen!r}, which names a feature twice; name each once")
    scale = float(np.abs(inputs.predict(inputs.rows)).max())
    single = {column: _centred_dependence(inputs, (column,)) for column in columns}
    pairs = list(itertools.combinations(columns, 2))
    results = []
    for first, second in pairs:
        joint = _centred_dependence(inputs, (first, second))
        results.append(_interaction(joint, joint - single[first] - single[second], scale))
    values, strengths = np.array(results).T
    names_of_pairs = tuple((inputs.names[first], inputs.names[second]) for first, second in pairs)
    return HStatistics(pairs=names_of_pairs, values=values, strengths=strengths, n=len(inputs.rows))


def _interaction(joint: Array, rest: Array, scale: float) -> tuple[float, float]:
    """Return H and the standard deviation of the interaction; H is NaN for a joint effect as small as rounding errors."""
    whole, strength = (float(np.sqrt(np.mean(part**2))) for part in (joint, rest))
    return (strength / whole if whole > _ROUNDING * scale else np.nan), strength


def _centred_dependence(inputs: Inputs, columns: tuple[int, ...]) -> Array:
    """Return the partial dependence on features at each row, minus its mean."""
    chosen = list(columns)
    points, places = np.unique(inputs.rows[:, chosen], axis=0, return_inverse=True)
    count, means = len(inputs.rows), []
    for batch in np.array_split(points, -(-len(points) * count // _BATCH)):
        table = np.tile(inputs.rows, (len(batch), 1))
        table[:, chosen] = np.repeat(batch, count, axis=0)
        means.append(inputs.predict(table).reshape(len(batch), count).mean(axis=1))
    dependence = np.concatenate(means)[places.ravel()]
    return np.asarray(dependence - dependence.mean())
