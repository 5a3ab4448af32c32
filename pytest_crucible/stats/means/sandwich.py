"""Cluster-robust standard errors of a mean, or of a difference of two means, from cluster totals alone.

With residual totals S_g, sizes n_g, N values in all and w_g = 1 / (1 - n_g / N):

- CR0 = sqrt(sum S_g^2) / N, as in Miller (2024, arXiv 2411.00640); too small with few clusters,
- CR1 = CR0 sqrt(G / (G - 1)),
- CR2 = sqrt(sum w_g S_g^2) / N, unbiased when values vary equally (Bell & McCaffrey 2002),
- CR3 = sqrt(sum w_g^2 S_g^2) / N, the jackknife, a little too large.

Two arms with shared clusters have one column each; a cluster then contributes the difference of its two terms.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from pytest_crucible.stats.arrays import Array, check_choice

Sandwich = Literal["cr0", "cr1", "cr2", "cr3"]


def robust_error(totals: Array, sizes: Array, variance: Sandwich) -> tuple[float, float]:
    """Return standard error and degrees of freedom from residual totals and sizes, both clusters x arms (1 or 2).

    CR2 has Satterthwaite's degrees of freedom (Pustejovsky & Tipton 2018), the others G - 1. R:
    clubSandwich::coef_test(lm(score ~ arm), "CR2", clusters, "Satterthwaite").

    >>> robust_error(np.array([[1.0], [-1.0], [2.0], [-2.0]]), np.full((4, 1), 2.0), "cr1")[1]
    3.0
    """
    contributions, dof = robust_terms(totals, sizes, variance)
    return root_of_squares(contributions), dof


def root_of_squares(contributions: Array) -> float:
    """Return the root of the sum of squares, also where the squares would underflow or overflow.

    >>> round(root_of_squares(np.array([3e200, 4e200])) / 1e200, 9)
    5.0
    """
    return math.hypot(*contributions.tolist())


def robust_terms(totals: Array, sizes: Array, variance: Sandwich) -> tuple[Array, float]:
    """Return each cluster's contribution to the error (the root of the sum of squares), and the degrees of freedom.

    >>> robust_terms(np.array([[1.0], [-1.0]]), np.full((2, 1), 2.0), "cr0")[0]
    array([ 0.25, -0.25])
    """
    check_choice(variance, get_args(Sandwich), "variance")
    n = sizes.sum(axis=0)
    scale = _correction(sizes / n, variance) / n
    contributions = totals * scale
    dof = _satterthwaite(sizes, scale, n) if variance == "cr2" else float(len(sizes) - 1)
    # A cluster in both arms contributes one difference: what it shares cancels.
    return (contributions[:, 0] - contributions[:, 1] if contributions.shape[1] == 2 else contributions[:, 0]), dof


def _correction(leverage: Array, variance: Sandwich) -> Array:
    """Return the factor on each cluster's residuals, which are too small because the mean was fitted to them."""
    # Neither corrects single clusters; CR1 rescales all of them alike.
    if variance in ("cr0", "cr1"):
        count = len(leverage)
        return np.full_like(leverage, math.sqrt(count / (count - 1)) if variance == "cr1" else 1.0)
    return np.asarray(1 / np.sqrt(1 - leverage) if variance == "cr2" else 1 / (1 - leverage))


def _satterthwaite(sizes: Array, scale: Array, n: Array) -> float:
    """Return the degrees of freedom of a quadratic form in independent clusters.

    Under equal variances its matrix is diagonal minus one rank per arm: its trace and its Frobenius norm need only
    sums, never the matrix.
    """
    # Bell & McCaffrey (2002): dof = trace^2 / norm^2 of the quadratic form, under the working model of equal variances.
    diagonal = (sizes * scale * scale).sum(axis=1)
    factors = sizes * scale / np.sqrt(n)
    squares = np.square(factors).sum(axis=1)
    trace = float(diagonal.sum() - squares.sum())
    norm = float(np.square(diagonal).sum() - 2 * (diagonal * squares).sum() + np.square(factors.T @ factors).sum())
    return trace * trace / norm
