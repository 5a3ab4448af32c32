"""The winner among the remaining members. Pure functions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.sweeps.drops import best_member


def choose_winner(values: npt.NDArray[np.float64], *, is_conditional: bool = False) -> int | None:
    """Return the column of samples x members values with the best mean; higher is better, NaN is a lost value.

    Of equal means the first wins. Members are compared on the samples that all of them have; None without such samples. Means
    that are conditional are compared as they are, each of the member's own values.

    >>> choose_winner(np.array([[1.0, 0.0, 1.0], [np.nan, 1.0, 1.0]]))
    0
    """
    if is_conditional:
        there = ~np.isnan(values)
        return best_member(np.nanmean(values, axis=0)) if there.any(axis=0).all() else None
    complete = ~np.isnan(values).any(axis=1)
    return best_member(values[complete].mean(axis=0)) if complete.any() else None
