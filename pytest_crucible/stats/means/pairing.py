"""The gain from pairing: the error of a difference is smaller when both arms have the same samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import finite, is_constant
from pytest_crucible.stats.means.moments import check_enough, standard_error
from pytest_crucible.stats.means.student import paired_differences


@dataclass(frozen=True, slots=True, kw_only=True)
class PairingGain:
    """Standard errors of the arms and of their difference, with and without the pairing."""

    se_candidate: float
    se_baseline: float
    correlation: float | None
    """Pearson's correlation of the two arms over samples; None when an arm does not vary."""
    se_paired: float
    se_unpaired: float
    variance_reduction: float | None
    """1 - (se_paired / se_unpaired)^2: the share of the variance that pairing removes; None when nothing varies."""
    n: int


def pairing_gain(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> PairingGain:
    """Return the standard error of a paired difference and that of independent arms of the same size.

    se_paired^2 = se_candidate^2 + se_baseline^2 - 2 correlation se_candidate se_baseline (Miller 2024, eq. 7 and 8).
    Raises ValueError for arms of unequal length and NotEnoughData below two pairs.

    >>> gain = pairing_gain([0.9, 0.7, 0.2, 0.4], [0.8, 0.6, 0.3, 0.3])
    >>> round(gain.correlation, 3), round(gain.variance_reduction, 3)
    (0.963, 0.936)
    """
    differences = check_enough(paired_differences(candidate, baseline))
    first, second = finite(candidate), finite(baseline)
    # A constant arm has a standard error of rounding size, which would give a correlation.
    errors = tuple(0.0 if is_constant(array) else standard_error(array) for array in (first, second, differences))
    unpaired = math.hypot(errors[0], errors[1])
    return PairingGain(
        se_candidate=errors[0],
        se_baseline=errors[1],
        correlation=float(np.corrcoef(first, second)[0, 1]) if errors[0] and errors[1] else None,
        se_paired=errors[2],
        se_unpaired=unpaired,
        variance_reduction=1 - (errors[2] / unpaired) ** 2 if unpaired else None,
        n=first.size,
    )
