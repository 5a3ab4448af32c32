"""Expectations on the mean, quantiles and distribution of a field of numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

from pytest_crucible.datasets.check import Finder, Finding, column_finding, ids_text
from pytest_crucible.datasets.columns import Column, Table
from pytest_crucible.datasets.expectation import (
    check_number,
    check_range,
    check_share,
    column_check,
    is_outside,
    range_text,
)
from pytest_crucible.records.errors import SpecError

Numbers = npt.NDArray[np.float64]
# Shapiro and Wilk's p-values are fitted for at most 5,000 values (Royston 1995).
MOST_SHAPIRO = 5000


class UnusableColumn(SpecError):
    """A field without values, or with values that are not numbers."""


def read_numbers(table: Table, column: str, *, least: int = 1) -> tuple[Column, Numbers]:
    """Return a column and its numbers. Raises UnusableColumn for values that are not numbers, or too few of them."""
    values = table.column(column)
    numbers = values.numbers
    wrong = np.isnan(numbers)
    if wrong.any():
        ids = sorted(table.ids(values.present[wrong].tolist()))
        raise UnusableColumn(f"{len(ids):,} of {len(numbers):,} values are not numbers: {ids_text(ids, len(ids))}")
    if len(numbers) < least:
        raise UnusableColumn(
            f"{'no sample has a value' if not len(numbers) else f'only {len(numbers)} samples have a value'}"
        )
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
        met = p > alpha
        text = "not proven to deviate" if met else "proven to deviate"
        return column_finding(
            values, f"the values are {text} from a normal distribution ({name}, p = {p:.3g})", is_met=met
        )

    return find
