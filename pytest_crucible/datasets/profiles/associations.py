"""Associations of the fields of a dataset, pair by pair, over the samples that have both values."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pytest_crucible.datasets.checks.columns import Column

# A field with more values is a text or an identifier, not a category.
MOST_CATEGORIES = 50
# 435 pairs: a wider table is too long to read, and each pair costs a pass over the samples.
MOST_FIELDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An association of two fields, and its strength."""

    fields: tuple[str, str]
    measure: str
    """`Pearson` and `Spearman` of two fields of numbers (from -1 to 1), `Cramer's V` of two of categories, and `correlation
    ratio` of one of each (0 to 1)."""
    value: float
    n: int


def associate_fields(columns: Sequence[Column]) -> tuple[Association, ...]:
    """Return all associations that are defined: a field that is constant has none. The strongest comes first."""
    prepared = [entry for column in columns if (entry := _prepare(column)) is not None][:MOST_FIELDS]
    associations = [association for pair in itertools.combinations(prepared, 2) for association in _associate(*pair)]
    return tuple(sorted(associations, key=lambda item: (-abs(item.value), item.fields, item.measure)))


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    is_number: bool
    values: np.ndarray
    """Numbers, or codes of categories; NaN if the value is missing."""


def _prepare(column: Column) -> _Field | None:
    """Return a field of numbers or of few categories; None for texts and for mixed values."""
    values = np.full(len(column.values), np.nan)
    if column.types - {type(None)} <= {int, float}:
        values[column.present] = column.numbers
        return _Field(column.name, True, values)
    if column.types & {list, dict, tuple}:
        return None
    names = sorted(set(column.labels))
    if not 2 <= len(names) <= MOST_CATEGORIES:
        return None
    codes = {name: code for code, name in enumerate(names)}
    values[column.present] = [codes[label] for label in column.labels]
    return _Field(column.name, False, values)


def _associate(first: _Field, second: _Field) -> list[Association]:
    both = ~np.isnan(first.values) & ~np.isnan(second.values)
    x, y = first.values[both], second.values[both]
    if len(x) < 3 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return []
    # The order of the samples must not change the last digit.
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    if first.is_number and second.is_number:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            values = {"Pearson": stats.pearsonr(x, y).statistic, "Spearman": stats.spearmanr(x, y).statistic}
    elif not first.is_number and not second.is_number:
        values = {"Cramer's V": _cramers_v(x, y)}
    else:
        numbers, codes = (x, y) if first.is_number else (y, x)
        values = {"correlation ratio": _correlation_ratio(numbers, codes)}
    names = (first.name, second.name)
    return [
        Association(fields=names, measure=measure, value=round(float(value), 6), n=len(x))
        for measure, value in values.items()
        if math.isfinite(value)
    ]


def _cramers_v(x: np.ndarray, y: np.ndarray) -> float:
    """Return sqrt(chi-squared / (n (min(r, c) - 1))), as `scipy.stats.contingency.association` does."""
    _, rows = np.unique(x, return_inverse=True)
    _, columns = np.unique(y, return_inverse=True)
    table = np.zeros((rows.max() + 1, columns.max() + 1), dtype=np.int64)
    np.add.at(table, (rows, columns), 1)
    return float(stats.contingency.association(table, method="cramer"))


def _correlation_ratio(numbers: np.ndarray, codes: np.ndarray) -> float:
    """Return eta: the square root of the share of the variance that lies between the categories."""
    counts = np.bincount(codes.astype(np.intp))
    sums = np.bincount(codes.astype(np.intp), weights=numbers)
    means = sums[counts > 0] / counts[counts > 0]
    between = (counts[counts > 0] * (means - numbers.mean()) ** 2).sum()
    return math.sqrt(min(1.0, between / ((numbers - numbers.mean()) ** 2).sum()))
