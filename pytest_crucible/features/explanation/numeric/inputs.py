"""Inputs of an explanation: a function that predicts, also as an estimator, a table of numbers, and its columns' names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.errors import SpecError
from pytest_crucible.stats.arrays import Array, Codes

if TYPE_CHECKING:
    import pandas as pd


Feature: TypeAlias = "str | int"
"""The name of a feature, or its position."""
Predict: TypeAlias = Callable[[Array], Any]
# Seeds that NumPy and scikit-learn both take.
_SEEDS = 2**32


@dataclass(frozen=True, slots=True)
class Inputs:
    """A model and the rows that it is explained on. Errors begin with `where`, such as "explain.pdp"."""

    where: str
    predict: Callable[[Array], Array]
    rows: Array
    names: tuple[str, ...]
    seed: int
    positions: Codes
    """The positions of the rows in the table that the user gave."""

    def column(self, feature: Feature) -> int:
        """Return the position of a feature. Raises SpecError for an unknown one."""
        if isinstance(feature, str) and feature in self.names:
            return self.names.index(feature)
        if isinstance(feature, int | np.integer) and 0 <= feature < len(self.names):
            return int(feature)
        raise SpecError(
            f"{self.where}: there is no feature {feature!r}; write one of {', '.join(map(repr, self.names))}, or a position"
        )

    def varying_column(self, feature: Feature) -> int:
        """Return the position of a feature that has at least two values. Raises SpecError for another one."""
        column = self.column(feature)
        check_variation(self.where, "rows", self.rows, self.names, (column,))
        return column

    def with_column(self, column: int, values: Array | float) -> Array:
        """Return the rows with other values of one feature."""
        rows = self.rows.copy()
        rows[:, column] = values
        return rows

    def draw(self, sample: int | None) -> Inputs:
        """Return the inputs with at most `sample` rows, drawn by the seed; all for None."""
        if sample is not None:
            check_count(self.where, "sample", sample, 2)
        if sample is None or len(self.rows) <= sample:
            return self
        drawn = np.sort(np.random.default_rng(self.seed).choice(len(self.rows), sample, replace=False))
        return replace(self, rows=self.rows[drawn], positions=drawn)


def read_inputs(where: str, predict: Predict, rows: Any, names: Sequence[str] | None, seed: int) -> Inputs:
    """Return the checked inputs of an explanation. Raises SpecError."""
    if not callable(predict):
        raise SpecError(f"{where}: predict is {predict!r}; expected a function, such as model.predict")
    if not isinstance(seed, int | np.integer) or not 0 <= seed < _SEEDS:
        raise SpecError(f"{where}: seed is {seed!r}; expected a whole number from 0 to {_SEEDS - 1}")
    own = _read_columns(rows)
    table = _read_table(where, "rows", rows)
    labels = _read_names(where, own if names is None else names, table.shape[1])
    table = check_finite(where, "rows", table, labels)
    return Inputs(where, _check_predictions(where, predict), table, labels, int(seed), np.arange(len(table)))


def read_background(inputs: Inputs, rows: Any, background: Any) -> Array:
    """Return the rows that stand for an unknown value of a feature. Raises SpecError for other columns than those of `rows`."""
    table = _read_table(inputs.where, "background", background)
    if table.shape[1] != len(inputs.names):
        raise SpecError(
            f"{inputs.where}: background has {table.shape[1]} features and rows has {len(inputs.names)}; "
            "give both the same columns"
        )
    theirs, ours = _read_columns(background), _read_columns(rows)
    if theirs and ours and theirs != ours:
        raise SpecError(
            f"{inputs.where}: background has the columns {', '.join(theirs)} and rows has {', '.join(ours)}; "
            "give both the same columns, in one order"
        )
    return check_finite(inputs.where, "background", table, inputs.names)


def _read_columns(rows: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns; None for an array."""
    return tuple(map(str, rows.columns)) if hasattr(rows, "columns") else None


def _read_table(where: str, what: str, rows: Any) -> Array:
    try:
        table = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpecError(
            f"{where}: {what} has rows of different lengths, or values that are not numbers; "
            "expected a table of numbers, rows x features"
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise SpecError(
            f"{where}: {what} has the shape {table.shape}; expected rows x features, for example [[1, 2]] for one row"
        )
    return table


def _read_names(where: str, names: Sequence[str] | None, features: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x{position}" for position in range(features))
    if isinstance(names, str) or len(names) != features:
        count = 1 if isinstance(names, str) else len(names)
        raise SpecError(f"{where}: {count} names for {features} features; give one name for each column")
    labels = tuple(map(str, names))
    if len(set(labels)) < features:
        twice = next(name for name in labels if labels.count(name) > 1)
        raise SpecError(f"{where}: two features have the name {twice!r}; give each its own")
    return labels


def check_finite(where: str, what: str, table: Array, names: Sequence[str]) -> Array:
    """Return a table after checking that it has neither NaN nor infinite values."""
    strange = np.argwhere(~np.isfinite(table))
    if len(strange):
        row, column = strange[0]
        raise SpecError(
            f"{where}: {what} has {table[row, column]} in feature {names[column]!r} (row {row}); fill or drop such rows"
        )
    return table


def check_variation(where: str, what: str, table: Array, names: Sequence[str], columns: Sequence[int]) -> None:
    """Raise SpecError for a feature that has one value."""
    for column in columns:
        if np.ptp(table[:, column]) == 0:
            raise SpecError(
                f"{where}: feature {names[column]!r} has one value ({table[0, column]:g}) in {what} (n = {len(table)}), "
                "so that its effect cannot be seen; give rows in which it varies, or another feature"
            )


def check_count(where: str, name: str, value: Any, least: int) -> None:
    """Raise SpecError for an argument that is not a whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise SpecError(f"{where}: {name} is {value!r}; expected a whole number from {least} on")


def _check_predictions(where: str, predict: Predict) -> Callable[[Array], Array]:
    """Return a function that predicts, and raises SpecError unless it returns a finite number for each row."""

    def predict_rows(rows: Array) -> Array:
        # A copy: a model that scales its argument in place would change the rows that are explained.
        result = np.asarray(predict(rows.copy()))
        if result.shape == (len(rows), 1):
            result = result[:, 0]
        if result.shape != (len(rows),):
            raise SpecError(
                f"{where}: predict returned the shape {result.shape} for {len(rows)} rows; expected {len(rows)} numbers, "
                "for example predict_proba(rows)[:, 1] of a classifier"
            )
        try:
            numbers = result.astype(np.float64)
        except (TypeError, ValueError):
            raise SpecError(
                f"{where}: predict returned {result.tolist()[0]!r}; expected a number for each row"
            ) from None
        if not np.isfinite(numbers).all():
            raise SpecError(
                f"{where}: predict returned NaN or an infinite value; expected a finite number for each row"
            )
        return numbers

    return predict_rows


def load_package(where: str, module: str, package: str) -> Any:
    """Import a module of an optional package. Raises SpecError with the extra if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SpecError(f'{where} needs {package}; pip install "pytest-crucible[explain]"') from error


def make_frame(columns: dict[str, Any]) -> pd.DataFrame:
    """Return a data frame of columns of one length."""
    import pandas as pd  # takes longer to import than everything else here

    return pd.DataFrame(columns)


def as_estimator(predict: Callable[[Array], Array]) -> Any:
    """Return a regressor with these predictions."""
    from sklearn.base import BaseEstimator, RegressorMixin

    class Predictor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, x: Any, y: Any) -> Any:
            return self

        def predict(self, x: Any) -> Array:
            return predict(x)

    return Predictor()
