"""Checks of a whole field: its mean and distribution, its labels, duplicates and groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from pytest_crucible.datasets.check import Finder, Finding, column_finding, ids_text, value_finder
from pytest_crucible.datasets.columns import Column, Table
from pytest_crucible.datasets.expectation import (
    check_choice,
    check_count,
    check_number,
    check_range,
    check_share,
    column_check,
    is_outside,
    range_text,
    row_check,
)
from pytest_crucible.datasets.similar import find_equal, find_similar
from pytest_crucible.features.data_checks.texts import UnusableColumn
from pytest_crucible.records.datasets import normalise
from pytest_crucible.records.errors import SpecError

Numbers = npt.NDArray[np.float64]

# Shapiro and Wilk's p-values are fitted for at most 5,000 values (Royston 1995).
MOST_SHAPIRO = 5000


def read_numbers(table: Table, column: str, *, least: int = 1) -> tuple[Column, Numbers]:
    """Return a column and its numbers. Raises UnusableColumn for values that are not numbers, or too few of them."""
    values = table.column(column)
    numbers = values.numbers
    wrong = np.isnan(numbers)
    if wrong.any():
        ids = sorted(table.ids(values.present[wrong].tolist()))
        raise UnusableColumn(f"{len(ids):,} of {len(numbers):,} values are not numbers: {ids_text(ids, len(ids))}")
    if len(numbers) < least:
        raise UnusableColumn(f"only {len(numbers)} samples have a value" if len(numbers) else "no sample has a value")
    return values, numbers


@column_check
def expect_column_mean_to_be_between(column: str, min: float | None = None, max: float | None = None) -> Finder:
    """Expect the mean of the numbers from `min` to `max`."""
    # Sorted, so that the order of the samples does not change the last digit.
    return _check_statistic(column, min, max, "mean", lambda numbers: float(np.mean(np.sort(numbers))))


@column_check
def expect_column_median_to_be_between(column: str, min: float | None = None, max: float | None = None) -> Finder:
    """Expect the median of the numbers from `min` to `max`."""
    return _check_statistic(column, min, max, "median", lambda numbers: float(np.median(numbers)))


@column_check
def expect_column_stdev_to_be_between(column: str, min: float | None = None, max: float | None = None) -> Finder:
    """Expect the population standard deviation of the numbers from `min` to `max`."""
    return _check_statistic(column, min, max, "standard deviation", lambda numbers: float(np.std(np.sort(numbers))))


def _check_statistic(
    column: str, low: float | None, high: float | None, name: str, statistic: Callable[[Numbers], float]
) -> Finder:
    check_range(low, high)

    def find(table: Table) -> Finding:
        values, numbers = read_numbers(table, column)
        value = statistic(numbers)
        return column_finding(
            values,
            f"the {name} is {value:.6g}",
            is_met=not is_outside(value, low, high),
            expected=f"{range_text(low, high)} is expected",
        )

    return find


@column_check
def expect_column_quantile_to_be(column: str, quantile: float, value: float, tolerance: float | None = None) -> Finder:
    """Expect a quantile (type 7 of Hyndman & Fan 1996) within `tolerance` of a value; by default 5 % of the value."""
    check_number("quantile", quantile)
    if not 0 <= quantile <= 1:
        raise SpecError(f"quantile is {quantile!r}; write a share from 0 to 1, such as 0.9")
    check_number("value", value)
    slack = abs(value) * 0.05 if tolerance is None else tolerance
    check_number("tolerance", slack)
    if slack < 0:
        raise SpecError(f"tolerance is {tolerance!r}; write a number of at least 0")

    def find(table: Table) -> Finding:
        values, numbers = read_numbers(table, column)
        observed = float(np.quantile(numbers, quantile))
        return column_finding(
            values,
            f"the {quantile:g} quantile is {observed:.6g}",
            is_met=abs(observed - value) <= slack + 1e-12 * abs(value),
            expected=f"{value:.6g} +- {slack:.3g} is expected",
        )

    return find


@column_check
def expect_column_values_to_be_normal(column: str, alpha: float = 0.05) -> Finder:
    """Expect numbers whose deviation from a normal distribution is not proven at `alpha`.

    The test is Shapiro and Wilk's (`scipy.stats.shapiro`) for at most 5,000 values, and D'Agostino and Pearson's above
    (`scipy.stats.normaltest`).
    """
    check_share("alpha", alpha)

    def find(table: Table) -> Finding:
        values, numbers = read_numbers(table, column, least=3)
        if np.ptp(numbers) == 0:
            return column_finding(values, "all values are equal", is_met=False)
        is_small = len(numbers) <= MOST_SHAPIRO
        ordered = np.sort(numbers)
        p = float((stats.shapiro(ordered) if is_small else stats.normaltest(ordered)).pvalue)
        name = "Shapiro-Wilk" if is_small else "D'Agostino-Pearson"
        text = f"{'not ' if p > alpha else ''}proven to deviate from a normal distribution ({name}, p = {p:.3g})"
        return column_finding(values, f"the values are {text}", is_met=p > alpha)

    return find


@column_check
def expect_label_balance(column: str, min_ratio: float = 0.1) -> Finder:
    """Expect that each label has at least the share `min_ratio` of the samples. One label alone is not balanced."""
    check_share("min_ratio", min_ratio)

    def find(table: Table) -> Finding:
        values = table.column(column)
        counts = Counter(values.labels)
        if len(counts) < 2:
            text = f"all {len(values.labels):,} values are {next(iter(counts))}" if counts else "no sample has a value"
            return column_finding(values, text, is_met=False)
        rarest, count = min(counts.items(), key=lambda item: (item[1], item[0]))
        share = count / len(values.labels)
        return column_finding(
            values,
            f"the rarest of {len(counts)} labels, {rarest}, has the share {share:.4g} ({count:,})",
            is_met=share >= min_ratio,
            expected=f"at least {min_ratio:.4g} is expected",
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
        return column_finding(
            values,
            f"there are {count:,} different values",
            is_met=min <= count <= max,
            expected=f"{range_text(min, max)} are expected",
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
        met = not is_outside(abs(value), min, max)
        expected = "" if met else f", and {range_text(min, max)} is expected of its absolute value"
        message = f"the {method.capitalize()} correlation is {value:.4g}{expected}"
        return Finding(message=message, checked=len(first), missing=missing, is_met=met)

    return find


def _pairs(table: Table, column: str, other: str) -> tuple[Any, Any]:
    """Return the numbers of both columns where neither is missing, sorted by value."""
    full = np.full((2, len(table)), np.nan)
    for row, name in zip(full, (column, other), strict=True):
        values = table.column(name)
        wrong = np.isnan(values.numbers).sum()
        if wrong:
            raise UnusableColumn(f"{wrong:,} values of {values.name!r} are not numbers")
        row[values.present] = values.numbers
    first, second = full[:, ~np.isnan(full).any(axis=0)]
    # The order of the samples must not change the last digit.
    order = np.lexsort((second, first))
    return first[order], second[order]


@column_check
def expect_table_row_count_to_be_between(min: int | None = None, max: int | None = None) -> Finder:
    """Expect from `min` to `max` samples."""
    check_range(min, max)

    def find(table: Table) -> Finding:
        met = not is_outside(len(table), min, max)
        expected = "" if met else f", and {range_text(min, max)} are expected"
        return Finding(message=f"there are {len(table):,} samples{expected}", checked=len(table), is_met=met)

    return find


@row_check
def expect_no_duplicates(column: str = "input", near: float | None = 0.8) -> Finder:
    """Expect that no two samples have equal texts, or texts with a Jaccard similarity of at least `near`; None compares
    equality only.

    Texts are equal after normalising: white space, case and compatibility forms do not count. All samples of a pair fail.
    """
    if near is not None:
        check_number("near", near)
        if not 0.5 <= near <= 1:
            raise SpecError(f"near is {near!r}; write a similarity from 0.5 to 1, or None for equal texts only")

    def find_repeated(values: Column) -> npt.ArrayLike:
        bad = np.zeros(len(values.texts), dtype=bool)
        bad[find_equal(values.texts)] = True
        if near is not None:
            bad[find_similar(values.texts, near)] = True
        return bad

    fault = "repeat another text" if near is None else "repeat another text, or nearly"
    return value_finder(column, find_repeated, "unlike all others", fault)


@row_check
def expect_one_answer_per_input(column: str = "input", answer: str = "expected") -> Finder:
    """Expect that samples with equal texts have equal answers. All samples of such a text fail."""

    def find(table: Table) -> Finding:
        values, answers = table.column(column), table.column(answer)
        positions = np.intersect1d(values.present, answers.present)
        keys = list(map(normalise, values.at(positions, values.texts)))
        of_text: dict[str, set[str]] = {}
        for key, label in zip(keys, answers.at(positions, answers.labels), strict=True):
            of_text.setdefault(key, set()).add(normalise(label))
        return Finding(
            message="of inputs with one answer",
            fault="have an input that has several answers",
            failing=positions[np.array([len(of_text[key]) > 1 for key in keys], dtype=bool)],
            checked=len(keys),
            missing=len(table) - len(keys),
        )

    return find


@column_check
def expect_group_share_below(share: float = 0.5, column: str = "group") -> Finder:
    """Expect that no group has `share` of the samples, or more: results would be about that group."""
    check_share("share", share)

    def find(table: Table) -> Finding:
        values = table.column(column)
        names, counts = np.unique(np.array(values.labels, dtype=object), return_counts=True)
        if not len(names):
            return column_finding(values, "no sample has a value", is_met=False)
        largest = int(np.argmax(counts))
        of = counts[largest] / counts.sum()
        return column_finding(
            values,
            f"the largest of {len(names):,} groups, {names[largest]}, has {counts[largest]:,} of {counts.sum():,} samples "
            f"({of:.4g})",
            is_met=bool(of < share),
            expected=f"a share below {share:g} is expected",
        )

    return find
