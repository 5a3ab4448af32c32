"""A statistic of the user's, of many samples at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import Array

Statistic = Callable[..., npt.ArrayLike]
"""Called as `statistic(samples, axis=1)` with one sample per row if it takes an axis, otherwise with one sample at a time."""


def of_one(sample: Array, statistic: Statistic) -> float:
    """The statistic of a single sample.

    >>> of_one(np.array([1.0, 2.0, 6.0]), np.median)
    2.0
    """
    return float(of_each(sample[None], statistic)[0])


def of_each(samples: Array, statistic: Statistic) -> Array:
    """The statistic of each sample (row), at once where it takes an axis. Raises ValueError unless it gives one number.

    >>> of_each(np.array([[1.0, 2.0, 6.0], [3.0, 3.0, 3.0]]), np.median).tolist()
    [2.0, 3.0]
    """
    each = statistic(samples, axis=1) if _takes_axis(statistic) else [statistic(sample) for sample in samples]
    found = np.asarray(each, dtype=np.float64)
    if found.shape != (len(samples),):
        raise ValueError(
            f"a statistic gives one number for each of {len(samples)} samples, not the shape {found.shape}"
        )
    return found


def _takes_axis(statistic: Statistic) -> bool:
    try:
        parameters = inspect.signature(statistic).parameters
    except ValueError:  # a function of C that does not say: those of numpy take one
        return True
    return "axis" in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
