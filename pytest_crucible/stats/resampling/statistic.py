"""Applying a user's statistic to one sample or to many at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array

Statistic = Callable[..., npt.ArrayLike]
"""Called as `statistic(samples, axis=1)` with one sample per row if it takes an axis, otherwise with one sample at a time."""


def apply_to_sample(sample: Array, statistic: Statistic) -> float:
    """Return the statistic of a single sample.

    >>> apply_to_sample(np.array([1.0, 2.0, 6.0]), np.median)
    2.0
    """
    return float(apply_to_samples(sample[None], statistic)[0])


def apply_to_samples(samples: Array, statistic: Statistic) -> Array:
    """Return the statistic of each sample (row), in one call where it takes an axis.

    Raises ValueError unless it returns one number per sample.

    >>> apply_to_samples(np.array([[1.0, 2.0, 6.0], [3.0, 3.0, 3.0]]), np.median).tolist()
    [2.0, 3.0]
    """
    each = statistic(samples, axis=1) if _takes_axis(statistic) else [statistic(sample) for sample in samples]
    results = np.asarray(each, dtype=np.float64)
    if results.shape != (len(samples),):
        raise ValueError(
            f"a statistic gives one number for each of {len(samples)} samples, not the shape {results.shape}"
        )
    return results


def _takes_axis(statistic: Statistic) -> bool:
    try:
        parameters = inspect.signature(statistic).parameters
    except ValueError:
        # A C function without a signature: those of numpy take an axis.
        return True
    return "axis" in parameters or any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
