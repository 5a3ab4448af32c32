"""The means of several arms on the same samples, with their covariance matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import ROUNDING, Array, Labels, Range, cluster_codes, cluster_totals, finite_matrix
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS, robust_terms
from pytest_crucible.stats.means.moments import check_inside
from pytest_crucible.stats.number_format import quantity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JointMeans:
    """Means of k arms, the k x k covariance matrix of these means, and its degrees of freedom."""

    means: Array
    covariance: Array
    dof: float
    n: int
    clusters: int | None = None

    @property
    def units(self) -> int:
        """Number of independent units: clusters, or else samples."""
        return self.n if self.clusters is None else self.clusters


def joint_means(values: npt.ArrayLike, clusters: Labels | None = None, *, bounds: Range | None = None) -> JointMeans:
    """Return the means of samples x arms values with their CR2 covariance matrix.

    Without clusters it is the sample covariance divided by n. `bounds` add one pseudo-observation, or pseudo-cluster, at
    each bound, as in `augmented_t_bound`. The degrees of freedom are Satterthwaite's and the same for each arm, because
    they depend on the sizes of clusters alone. Raises NotEnoughData below two samples or five clusters.

    >>> joint = joint_means([[1, 0], [0, 0], [1, 1], [1, 0]])
    >>> joint.means.tolist(), joint.covariance.round(4).tolist(), round(joint.dof, 6)
    ([0.75, 0.25], [[0.0625, 0.0208], [0.0208, 0.0625]], 3.0)
    """
    matrix = finite_matrix(values, rows="samples", columns="arms")
    codes, count = cluster_codes(np.arange(len(matrix)) if clusters is None else clusters, len(matrix))
    _check_enough(count, clustered=clusters is not None)
    centre = matrix.mean(axis=0)
    residuals = matrix - centre
    # Equal values have a mean that may differ from them by rounding, and would get a tiny standard error.
    residuals[np.abs(residuals) <= ROUNDING * np.abs(matrix).max(axis=0)] = 0.0
    totals = residuals if clusters is None else np.stack([cluster_totals(codes, arm) for arm in residuals.T], axis=1)
    sizes = np.bincount(codes).astype(np.float64)
    if bounds is not None:
        check_inside(matrix.ravel(), bounds)
        totals, sizes = _with_pseudo_units(totals, sizes, centre, bounds)
    shift = totals.sum(axis=0) / sizes.sum()
    scale, dof = robust_terms(np.ones((sizes.size, 1)), sizes[:, None], "cr2")
    contributions = (totals - sizes[:, None] * shift) * scale[:, None]
    return JointMeans(
        means=centre + shift,
        covariance=contributions.T @ contributions,
        dof=dof,
        n=len(matrix),
        clusters=None if clusters is None else count,
    )


def _check_enough(count: int, *, clustered: bool) -> None:
    fewest = FEWEST_CLUSTERS if clustered else 2
    if count < fewest:
        units = quantity(count, "cluster" if clustered else "sample")
        raise NotEnoughData(f"{units}: comparing arms needs at least {fewest}")


def _with_pseudo_units(totals: Array, sizes: Array, centre: Array, bounds: Range) -> tuple[Array, Array]:
    """Return residual totals and sizes with one more unit at each bound, as large as that of an average sample."""
    weight = float((sizes * sizes).sum() / sizes.sum())
    extremes = np.stack([weight * (bound - centre) for bound in bounds])
    return np.concatenate((totals, extremes)), np.append(sizes, [weight, weight])
