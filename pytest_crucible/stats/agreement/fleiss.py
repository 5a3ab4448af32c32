"""Fleiss' kappa: any number of raters, not necessarily the same for each unit, but equally many."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.agreement.coefficients import Agreement, Transform, chance_corrected_agreement, check_table
from pytest_crucible.stats.arrays import ROUNDING, Array
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import normal_p_value


def fleiss_kappa(counts: npt.ArrayLike, *, level: float = 0.95, transform: Transform = "fisher") -> Agreement:
    """Return Fleiss' kappa of a table units x categories, with an interval that does not assume kappa = 0.

    Expected agreement is that of the pooled category shares. Fleiss 1971; interval of Gwet 2021 (EPM 81:781), R:
    irrCAC::fleiss.kappa.dist, with transform="none". `count_ratings` makes the table from ratings. Raises ValueError
    for units with unequal numbers of ratings (`krippendorff_alpha` and `gwet_ac1` take them), NotEnoughData below 2
    units.

    >>> result = fleiss_kappa([[3, 0], [2, 1], [0, 3], [3, 0]])
    >>> round(result.value, 4), round(result.raw, 4)
    (0.625, 0.8333)
    """
    table, raters = _equal_raters(counts)
    shares = table.sum(axis=0) / table.sum()
    # Each unit's contribution: the mean pooled share of the categories it received.
    expected = table @ shares / raters
    identity = np.eye(table.shape[1])
    method = "linearised (gwet 2021), t"
    return chance_corrected_agreement(
        "fleiss kappa", table, identity, expected, level=level, method=method, transform=transform
    )


def fleiss_kappa_test(counts: npt.ArrayLike) -> Significance:
    """Test "the raters agree only by chance", with the variance that holds when they do.

    z = kappa / se; Fleiss, Nee & Landis 1979; R: irr::kappam.fleiss. The standard error is for this test
    only: the interval of `fleiss_kappa` has its own.

    >>> round(fleiss_kappa_test([[3, 0], [2, 1], [0, 3], [3, 0]]).p_value, 4)
    0.0304
    """
    table, raters = _equal_raters(counts)
    agreement = fleiss_kappa(counts)
    name = "fleiss kappa, null variance of fleiss, nee & landis"
    if agreement.value is None:
        return Significance(
            method=name, statistic=None, p_value=None, n=(len(table),), status="degenerate", note=agreement.note
        )
    se = _null_standard_error(table, raters)
    z = agreement.value / se
    p_value = normal_p_value(z)
    return Significance(method=name, statistic=z, p_value=p_value, estimate=agreement.value, se=se, n=(len(table),))


def _equal_raters(counts: npt.ArrayLike) -> tuple[Array, int]:
    table = check_table(counts)
    sizes = table.sum(axis=1)
    if np.ptp(sizes) or sizes[0] < 2:
        raise ValueError(
            f"fleiss kappa needs the same number of ratings for each unit, at least 2, not {sizes.min():g} to {sizes.max():g}"
        )
    return table, int(sizes[0])


def _null_standard_error(table: Array, raters: int) -> float:
    shares = table.sum(axis=0) / table.sum()
    spread = shares * (1 - shares)
    total = float(spread.sum())
    # Fleiss, Nee & Landis (1979): all units are rated equally often, and all agreement is by chance.
    bracket = total**2 - float((spread * (1 - 2 * shares)).sum())
    assert total > ROUNDING, "one category is answered before"
    return math.sqrt(2 * bracket / (len(table) * raters * (raters - 1))) / total
