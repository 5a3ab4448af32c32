"""Expectations on labels, related fields and the size of a dataset."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from scipy import stats

from pytest_crucible.datasets.checks.arguments import (
    check_choice,
    check_count,
    check_number,
    check_range,
    check_share,
    range_text,
)
from pytest_crucible.datasets.checks.check import Finder, Finding
from pytest_crucible.datasets.checks.columns import Table
from pytest_crucible.datasets.checks.expectation import column_check
from pytest_crucible.datasets.checks.statistics import UnusableColumn


@column_check
def expect_label_balance(column: str, min_ratio: float = 0.1) -> Finder:
    """Expect that each label has at least the share `min_ratio` of the samples. One label alone is not balanced."""
    check_share("min_ratio", min_ratio)

    def find(table: Table) -> Finding:
        values = table.column(column)
        counts = Counter(values.labels)
        if len(counts) < 2:
            text = f"all {len(values.labels):,} values are {next(iter(counts))}" if counts else "no sample has a value"
            return Finding(message=text, checked=len(values.labels), missing=values.missing, is_met=False)
        rarest, count = min(counts.items(), key=lambda item: (item[1], item[0]))
        share = count / len(values.labels)
        met = share >= min_ratio
        expected = "" if met else f", and at least {min_ratio:.4g} is expected"
        return Finding(
            message=f"the rarest of {len(counts)} labels, {rarest}, has the share {share:.4g} ({count:,}){expected}",
            checked=len(values.labels),
            missing=values.missing,
            is_met=met,
        )

    return find


@column_check
def expect_label_cardinality(column: str, min: int = 2, max: int = 100) -> Finder:
    """Expect from `min` to `max` different values."""
    check_range(min, max)
    check_count("min", min)
    check_count("max", max)

    def find(table: Table) -> Finding:
        values = table.column(column)
        count = len(set(values.labels))
        met = min <= count <= max
        expected = "" if met else f", and {range_text(min, max)} are expected"
        return Finding(
            message=f"there are {count:,} different values{expected}",
            checked=len(values.labels),
            missing=values.missing,
            is_met=met,
        )

    return find


@column_check
def expect_feature_correlation(
    column: str, other: str, max: float | None = 0.95, min: float | None = None, method: str = "pearson"
) -> Finder:
    """Expect an absolute correlation of two fields of numbers from `min` to `max`.

    Samples that lack either value are left out. `method` is "pearson", or "spearman" (ties have the mean of their ranks).
    """
    check_range(min, max)
    check_choice("method", method, ("pearson", "spearman"))

    def find(table: Table) -> Finding:
        first, second = _pairs(table, column, other)
        missing = len(table) - len(first)
        if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
            why = "fewer than three samples have both values" if len(first) < 3 else "one of the fields is constant"
            return Finding(
                message=f"the correlation is undefined: {why}", checked=len(first), missing=missing, is_met=False
            )
        result: Any = stats.pearsonr(first, second) if method == "pearson" else stats.spearmanr(first, second)
        value = float(result.statistic)
        met = (min is None or abs(value) >= min) and (max is None or abs(value) <= max)
        expected = "" if met else f", and {range_text(min, max)} is expected of its absolute value"
        return Finding(
            message=f"the {method.capitalize()} correlation is {value:.4g}{expected}",
            checked=len(first),
            missing=missing,
            is_met=met,
        )

    return find


def _pairs(table: Table, column: str, other: str) -> tuple[Any, Any]:
    """Return the numbers of both columns where neither is missing, sorted by value."""
    columns = [table.column(name) for name in (column, other)]
    full = []
    for values in columns:
        numbers = np.full(len(table), np.nan)
        numbers[values.present] = values.numbers
        wrong = np.isnan(values.numbers)
        if wrong.any():
            raise UnusableColumn(f"{wrong.sum():,} values of {values.name!r} are not numbers")
        full.append(numbers)
    both = ~np.isnan(full[0]) & ~np.isnan(full[1])
    first, second = full[0][both], full[1][both]
    # The order of the samples must not change the last digit.
    order = np.lexsort((second, first))
    return first[order], second[order]


@column_check
def expect_table_row_count_to_be_between(min: int | None = None, max: int | None = None) -> Finder:
    """Expect from `min` to `max` samples."""
    check_range(min, max)
    for name, end in (("min", min), ("max", max)):
        if end is not None:
            check_number(name, end)

    def find(table: Table) -> Finding:
        met = (min is None or len(table) >= min) and (max is None or len(table) <= max)
        expected = "" if met else f", and {range_text(min, max)} are expected"
        return Finding(message=f"there are {len(table):,} samples{expected}", checked=len(table), is_met=met)

    return find
