"""The bootstrap of any statistic of one sample, by scipy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from pytest_crucible.stats.arrays import check_choice, check_share, finite
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity, with_interval, with_note
from pytest_crucible.stats.resampling.draws import Seed, generator

Method = Literal["bca", "percentile", "basic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapResult:
    """A statistic with its bootstrap interval and standard error."""

    estimate: float
    interval: Interval | None
    """None where it would be a single point, or BCa is not defined."""
    se: float
    n: int
    seed: int | None
    method: str
    note: str = ""

    def __str__(self) -> str:
        return with_note(f"{with_interval(self.estimate, self.interval)}, n={self.n:,} ({self.method})", self.note)


def bootstrap(
    values: npt.ArrayLike,
    statistic: Callable[..., Any],
    *,
    level: float = 0.95,
    method: Method = "bca",
    resamples: int = 9999,
    rng: Seed = 0,
) -> BootstrapResult:
    """Return a statistic of the values with its bootstrap interval: scipy.stats.bootstrap.

    `statistic` takes `axis=`, as np.mean does. Raises NotEnoughData below two values.

    >>> import numpy as np
    >>> round(bootstrap([0.8, 1.1, 0.9, 1.4, 2.2, 0.7], np.median).estimate, 2)
    1.0
    """
    import scipy.stats

    check_share(level, "level")
    check_choice(method, ("bca", "percentile", "basic"), "method")
    array = finite(values)
    if array.size < 2:
        raise NotEnoughData(f"{quantity(array.size, 'value')}: a bootstrap needs at least 2")
    generate, seed = generator(rng)
    # Where BCa is not defined, scipy warns and returns NaN: the interval is None.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resampled = scipy.stats.bootstrap(
            (array,), statistic, confidence_level=level, n_resamples=resamples, method=method, random_state=generate
        )
    low, high = (float(end) for end in resampled.confidence_interval)
    named, note = f"bootstrap {method}", ""
    if math.isnan(low):
        note = "BCa is not defined for so many ties: use method='percentile'"
    elif low == high:
        note = "too many ties: the interval would be a single point"
    return BootstrapResult(
        estimate=float(statistic(array, axis=0)),
        interval=None if note else Interval(low=low, high=high, level=level, method=named),
        se=float(resampled.standard_error),
        n=array.size,
        seed=seed,
        method=f"{named}, {resamples:,} resamples",
        note=note,
    )
