"""Cochran's Q test: three or more arms succeed equally often on the same samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from pytest_crucible.stats.arrays import Array, finite_matrix
from pytest_crucible.stats.results import Significance


def cochran_q(matrix: npt.ArrayLike) -> Significance:
    """Return Cochran's Q test of a samples x arms matrix of zeros and ones; R: rstatix::cochran_qtest.

    Q = (k - 1) (k sum C_j^2 - N^2) / (k N - sum R_i^2), with column sums C, row sums R and their total N, is about
    chi-square with k - 1 degrees of freedom (Cochran 1950). For two arms it is McNemar's without correction. p is 1
    when every sample has the same outcome in all arms. Raises ValueError for values that are neither 0 nor 1.

    >>> result = cochran_q([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 1, 1]])
    >>> round(result.statistic, 4), result.dof, round(result.p_value, 4)
    (4.5, (2.0,), 0.1054)
    """
    array = _binary(finite_matrix(matrix, rows="samples", columns="arms"))
    samples, arms = array.shape
    columns, rows, total = array.sum(axis=0), array.sum(axis=1), float(array.sum())
    # Samples that all arms solve, or none, contribute nothing to either side.
    undecided = arms * total - float((rows * rows).sum())
    # k sum C^2 - N^2 as a sum of squares around the mean, which does not cancel.
    spread = arms * float(((columns - total / arms) ** 2).sum())
    statistic = (arms - 1) * spread / undecided if undecided else None
    return Significance(
        method="cochran q",
        statistic=statistic,
        p_value=None if not samples else 1.0 if statistic is None else float(chdtrc(arms - 1, statistic)),
        dof=(float(arms - 1),),
        n=(samples,),
        status="insufficient_data" if not samples else "degenerate" if statistic is None else "ok",
        note="every sample has the same outcome in all arms" if samples and statistic is None else "",
    )


def _binary(array: Array) -> Array:
    graded = int(np.sum((array != 0) & (array != 1)))
    if graded:
        raise ValueError(f"{graded} of {array.size} values are neither 0 nor 1")
    return array
