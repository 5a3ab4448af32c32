"""Curves of a prediction over one feature: partial dependence, individual curves, accumulated local effects."""

from __future__ import annotations

from collections.abc import Sequence
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
from pytest_crucible.stats.arrays import Array, Codes

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartialDependence:
    """The mean prediction of all rows at each value of a feature."""

    feature: str
    values: Array
    predictions: Array

    def to_frame(self) -> pd.DataFrame:
        """Return feature, value and prediction."""
        return make_frame({"feature": self.feature, "value": self.values, "prediction": self.predictions})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndividualCurves:
    """The prediction of each row at each value of a feature."""

    feature: str
    values: Array
    predictions: Array
    """Rows x values."""
    positions: Codes
    """The positions of the rows in the table."""

    def to_frame(self) -> pd.DataFrame:
        """Return feature, row, value and prediction."""
        rows, values = np.repeat(self.positions, len(self.values)), np.tile(self.values, len(self.positions))
        columns = {"row": rows, "value": values, "prediction": self.predictions.ravel()}
        return make_frame({"feature": self.feature, **columns})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AccumulatedEffects:
    """The effect of a feature at the ends of intervals, with mean 0 over the rows."""

    feature: str
    values: Array
    effects: Array
    counts: Codes
    """The rows in each interval; one fewer than values."""

    def to_frame(self) -> pd.DataFrame:
        """Return feature, value, effect, and the number of rows between the value before and this one."""
        counts = np.concatenate([[0], self.counts])
        return make_frame({"feature": self.feature, "value": self.values, "effect": self.effects, "rows": counts})


def pdp(
    predict: Predict,
    rows: Any,
    feature: Feature,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    points: int = 100,
    percentiles: tuple[float, float] = (0.05, 0.95),
    sample: int | None = None,
) -> PartialDependence:
    """Return the partial dependence on a feature (Friedman 2001), by scikit-learn (extra `[explain]`).

    The values are all of a feature with fewer than `points`, otherwise so many from one of the `percentiles` to the other.
    """
    inputs = read_inputs("explain.pdp", predict, rows, names, seed).draw(sample)
    name, curves = _scikit_learn_curves(inputs, feature, points, percentiles)
    return PartialDependence(feature=name, values=curves["grid_values"][0], predictions=curves["average"][0])


def ice(
    predict: Predict,
    rows: Any,
    feature: Feature,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    points: int = 100,
    percentiles: tuple[float, float] = (0.05, 0.95),
    sample: int | None = None,
) -> IndividualCurves:
    """Return individual conditional expectations of a feature (Goldstein et al. 2015), by scikit-learn (extra `[explain]`).

    The values are those of `pdp`. With `sample` so many rows are drawn.
    """
    inputs = read_inputs("explain.ice", predict, rows, names, seed).draw(sample)
    name, curves = _scikit_learn_curves(inputs, feature, points, percentiles)
    return IndividualCurves(
        feature=name,
        values=curves["grid_values"][0],
        predictions=curves["individual"][0],
        positions=inputs.positions,
    )


def _scikit_learn_curves(
    inputs: Inputs, feature: Feature, points: int, percentiles: tuple[float, float]
) -> tuple[str, Any]:
    """Return the name of the feature, and scikit-learn's mean and individual curves."""
    column = inputs.varying_column(feature)
    check_count(inputs.where, "points", points, 2)
    inspection = load_package(inputs.where, "sklearn.inspection", "scikit-learn")
    try:
        curves = inspection.partial_dependence(
            as_estimator(inputs.predict),
            inputs.rows,
            [column],
            grid_resolution=points,
            percentiles=percentiles,
            method="brute",
            kind="both",
        )
    except ValueError as error:
        if "percentile" not in str(error):  # an error of the model
            raise
        raise SpecError(
            f"{inputs.where}: percentiles is {percentiles!r}; expected two shares from 0 to 1, the smaller one first, "
            f"between which feature {inputs.names[column]!r} varies, such as (0, 1)"
        ) from error
    return inputs.names[column], curves


def ale(
    predict: Predict,
    rows: Any,
    feature: Feature,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    bins: int = 20,
    sample: int | None = None,
) -> AccumulatedEffects:
    """Return accumulated local effects of a feature (Apley & Zhu 2020).

    The intervals end at quantiles, so that about equally many rows lie in each; with few values there are fewer than `bins`.
    """
    inputs = read_inputs("explain.ale", predict, rows, names, seed).draw(sample)
    column = inputs.varying_column(feature)
    check_count(inputs.where, "bins", bins, 1)
    values = inputs.rows[:, column]
    # This kind of quantile is always a value of the table, so that no interval is empty.
    ends = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1), method="inverted_cdf"))
    # The first interval includes the smallest value.
    interval = np.clip(np.searchsorted(ends, values), 1, None)
    steps = inputs.predict(inputs.with_column(column, ends[interval])) - inputs.predict(
        inputs.with_column(column, ends[interval - 1])
    )
    counts = np.bincount(interval)[1:]
    effects = np.concatenate([[0.0], np.cumsum(np.bincount(interval, steps)[1:] / counts)])
    mean = counts @ (effects[1:] + effects[:-1]) / 2 / counts.sum()
    return AccumulatedEffects(feature=inputs.names[column], values=ends, effects=effects - mean, counts=counts)
