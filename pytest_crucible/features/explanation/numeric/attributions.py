"""Explanations of single predictions: SHAP values by the package shap, and LIME's local linear model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_crucible.features.explanation.numeric.inputs import (
    Inputs,
    Predict,
    check_count,
    check_variation,
    load_package,
    make_frame,
    read_background,
    read_inputs,
)
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

# As shap's own choice: beyond, 2^n sets of features for each row and background row take too long.
MOST_EXACT = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShapValues:
    """Shapley values of features: those of a row sum to its prediction minus `base`."""

    names: tuple[str, ...]
    rows: Array
    values: Array
    """Rows x features."""
    predictions: Array
    base: float
    """The mean prediction of the background."""
    is_exact: bool
    """All sets of features were used, otherwise permutations of them."""

    def to_frame(self) -> pd.DataFrame:
        """Return row, feature, feature_value and shap_value."""
        return make_frame({**_cells(self.names, self.rows), "shap_value": self.values.ravel()})


def shap(
    predict: Predict,
    rows: Any,
    *,
    background: Any,
    names: Sequence[str] | None = None,
    seed: int = 0,
    permutations: int = 10,
) -> ShapValues:
    """Return the Shapley values of each row's features (Lundberg & Lee 2017), by the package shap (extra `[explain]`).

    A feature that is left out has the values of all rows of `background`. Up to 10 features all sets are used; beyond, so many
    `permutations`, forwards and backwards, which are exact for effects of single features and of pairs.
    """
    inputs = read_inputs("explain.shap", predict, rows, names, seed)
    table = read_background(inputs, rows, background)
    check_count(inputs.where, "permutations", permutations, 1)
    library = load_package(inputs.where, "shap", "shap")
    is_exact = len(inputs.names) <= MOST_EXACT
    values = _all_sets(library, inputs, table) if is_exact else _permuted_sets(library, inputs, table, permutations)
    return ShapValues(
        names=inputs.names,
        rows=inputs.rows,
        values=np.asarray(values, dtype=np.float64),
        predictions=inputs.predict(inputs.rows),
        base=float(inputs.predict(table).mean()),
        is_exact=is_exact,
    )


def _all_sets(library: Any, inputs: Inputs, background: Array) -> Any:
    # Of all sets its regression has the exact values. The exact explainer compiles itself, for 15 s in each process.
    explainer = library.KernelExplainer(inputs.predict, background)
    return explainer.shap_values(inputs.rows, nsamples=2 ** len(inputs.names), l1_reg=False, silent=True)


def _permuted_sets(library: Any, inputs: Inputs, background: Array, permutations: int) -> Any:
    # Without the number shap would draw 100 rows of a larger background.
    masker = library.maskers.Independent(background, max_samples=len(background))
    explainer = library.PermutationExplainer(inputs.predict, masker, seed=inputs.seed)
    return explainer(inputs.rows, max_evals=permutations * (2 * len(inputs.names) + 1), silent=True).values


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LimeWeights:
    """A linear model around each row."""

    names: tuple[str, ...]
    rows: Array
    weights: Array
    """Rows x features: the change of the prediction when a feature grows by a standard deviation of the background."""
    standard_errors: Array
    """Of the weights: Monte Carlo errors, which more `samples` make smaller. 0 for a linear model."""
    slopes: Array
    """The same weights for one unit of the feature."""
    local_predictions: Array
    """The linear model's values at the rows."""
    predictions: Array
    fits: Array
    """The weighted R^2 around each row: near 0 the linear model explains nothing. NaN where the predictions do not vary."""

    def to_frame(self) -> pd.DataFrame:
        """Return row, feature, feature_value, weight, standard_error, slope and fit."""
        columns = {"weight": self.weights, "standard_error": self.standard_errors, "slope": self.slopes}
        fits = np.repeat(self.fits, len(self.names))
        cells = _cells(self.names, self.rows)
        return make_frame({**cells, **{name: table.ravel() for name, table in columns.items()}, "fit": fits})


def lime(
    predict: Predict,
    rows: Any,
    *,
    background: Any,
    names: Sequence[str] | None = None,
    seed: int = 0,
    samples: int = 5000,
    width: float | None = None,
) -> LimeWeights:
    """Return the weights of a linear model around each row (Ribeiro et al. 2016), for features that are numbers.

    `samples` normal points around a row, with the standard deviations of `background`, are weighted by their distance d from it,
    in standard deviations: exp(-d^2 / (2 width^2)), as the package lime does; `width` is 0.75 sqrt(features) by default.
    """
    inputs = read_inputs("explain.lime", predict, rows, names, seed)
    table = read_background(inputs, rows, background)
    check_variation(inputs.where, "background", table, inputs.names, range(len(inputs.names)))
    check_count(inputs.where, "samples", samples, len(inputs.names) + 2)
    if width is None:
        width = 0.75 * math.sqrt(len(inputs.names))
    elif not 0 < width < math.inf:
        raise SpecError(f"{inputs.where}: width is {width!r}; expected a number above 0, in standard deviations")
    scales = table.std(axis=0)
    # Each row has its own draws, so that its weights do not depend on the rows beside it.
    streams = np.random.SeedSequence(inputs.seed).spawn(len(inputs.rows))
    fits = [
        _fit_around(inputs, row, scales, width, np.random.default_rng(stream).standard_normal((samples, len(row))))
        for row, stream in zip(inputs.rows, streams, strict=True)
    ]
    weights = np.array([fit.slopes for fit in fits])
    return LimeWeights(
        names=inputs.names,
        rows=inputs.rows,
        weights=weights,
        standard_errors=np.array([fit.errors for fit in fits]),
        slopes=weights / scales,
        local_predictions=np.array([fit.intercept for fit in fits]),
        predictions=inputs.predict(inputs.rows),
        fits=np.array([fit.explained for fit in fits]),
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    intercept: float
    slopes: Array
    errors: Array
    explained: float


def _fit_around(inputs: Inputs, row: Array, scales: Array, width: float, steps: Array) -> _Fit:
    """Return the weighted least squares fit around a row, at steps in standard deviations."""
    predictions = inputs.predict(row + steps * scales)
    weights = np.exp(-(steps**2).sum(axis=1) / (2 * width**2))
    design = np.column_stack([np.ones(len(steps)), steps])
    root = np.sqrt(weights)[:, None]
    if np.linalg.matrix_rank(design * root) < design.shape[1]:
        raise SpecError(
            f"{inputs.where}: width is {width:g}, so that too few points have a weight; give a larger width, or more samples"
        )
    inverse = np.linalg.pinv(design * root)
    solution = inverse @ (predictions * root[:, 0])
    residuals = predictions - design @ solution
    # White 1980: the residuals of a curved model are larger far from the row.
    errors = np.sqrt(((inverse * (root[:, 0] * residuals)) ** 2).sum(axis=1))
    variation = weights @ (predictions - np.average(predictions, weights=weights)) ** 2
    explained = 1 - weights @ residuals**2 / variation if variation > 0 else math.nan
    return _Fit(float(solution[0]), solution[1:], errors[1:], float(explained))


def _cells(names: Sequence[str], rows: Array) -> dict[str, Any]:
    """Return the columns row, feature and feature_value of a table with a line for each cell."""
    return {
        "row": np.repeat(np.arange(len(rows)), len(names)),
        "feature": list(names) * len(rows),
        "feature_value": rows.ravel(),
    }
