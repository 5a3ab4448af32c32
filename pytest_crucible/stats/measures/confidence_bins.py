"""The ten bins of equal width in which stated confidences are compared with outcomes: (0, 0.1], (0.1, 0.2], ..., (0.9, 1]."""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Array, Codes

# As in the papers that defined the expected calibration error; another number gives another error.
BINS = 10
# A confidence such as 0.1 + 0.2, times 10, comes out just above 3 and would fall into the next bin.
_ROUNDING = 1e-12


def confidence_bins(confidence: Array) -> Codes:
    """Return the number of each confidence's bin, from 0; a confidence of 0 belongs to the first.

    >>> confidence_bins(np.array([0.0, 0.1, 0.11, 0.1 + 0.2, 1.0])).tolist()
    [0, 0, 1, 2, 9]
    """
    return np.clip(np.ceil(confidence * BINS - _ROUNDING).astype(np.intp) - 1, 0, BINS - 1)
