"""Intraclass correlation, design effect and effective sample size of clustered values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Labels
from pytest_crucible.stats.means.clustered import check_clustered
from pytest_crucible.stats.means.moments import standard_error
from pytest_crucible.stats.means.one_way import one_way
from pytest_crucible.stats.number_format import number, quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDesign:
    """Design effect of clusters and the figures it comes from. None if the data do not define them."""

    n: int
    clusters: int
    size: float
    """n0, the effective cluster size of the analysis of variance."""
    icc: float | None
    """ICC(1), not truncated: below 0 when clusters differ less than by chance, below -1 where most have one value."""
    design_effect: float | None
    """Factor on the variance of the mean: 1 + (m - 1) icc with m = sum(n_g^2) / N (Kish 1965)."""
    effective_n: float | None
    """Number of independent values with the same standard error: n / design effect."""
    se_naive: float
    """Standard error of the mean under the wrong assumption that the values are independent."""

    def __str__(self) -> str:
        effect = f"design effect {number(self.design_effect)}, icc {number(self.icc)}"
        clusters = quantity(self.clusters, "cluster")
        return f"{effect}, n={self.n:,} in {clusters}, worth {number(self.effective_n)} independent values"


def cluster_effect(values: npt.ArrayLike, clusters: Labels) -> ClusterDesign:
    """Return the intraclass correlation, Kish's design effect and the effective sample size of clustered values.

    They serve reading and planning; the robust standard errors of `clustered_mean` do not use them. R: ICC::ICCbare for
    the correlation. Raises NotEnoughData below two clusters.

    >>> effect = cluster_effect([1, 1, 0, 0, 1, 1, 0, 0], list("aabbccdd"))
    >>> effect.icc, effect.design_effect, effect.effective_n
    (1.0, 2.0, 4.0)
    """
    array, codes, count = check_clustered(values, clusters, fewest=2)
    split, sizes = one_way(array, codes), np.bincount(codes)
    # With one value per cluster the correlation is undefined, but the design effect is 1.
    alone = array.size == count
    effect = 1.0 if alone else None if split.icc is None else _design_effect(sizes, split.icc)
    return ClusterDesign(
        n=array.size,
        clusters=count,
        size=split.size,
        icc=split.icc,
        design_effect=effect,
        effective_n=array.size / effect if effect is not None and effect > 0 else None,
        se_naive=standard_error(array),
    )


def _design_effect(sizes: npt.NDArray[Any], icc: float) -> float:
    """Return the design effect, without a check: estimates from nearly single values may lie below -1."""
    return 1 + (float(np.square(sizes).sum() / sizes.sum()) - 1) * icc
