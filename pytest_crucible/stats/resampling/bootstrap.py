"""The bootstrap of any statistic of one sample: exact up to eight observations, seeded resampling above.

For a mean, `bootstrap_mean` needs no resampling; for a median or another quantile `quantile_interval` is exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Codes, Labels, check_choice, check_share, cluster_codes
from pytest_crucible.stats.resampling.bootstrap_result import (
    BootstrapResult,
    check_size,
    complete_result,
    mark_undefined,
)
from pytest_crucible.stats.resampling.distribution import tabulate_draws
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator, index_blocks
from pytest_crucible.stats.resampling.exact_distributions import MOST_LISTED, list_resamples
from pytest_crucible.stats.resampling.jackknife import jackknife, observations
from pytest_crucible.stats.resampling.statistic import Statistic, apply_to_sample, apply_to_samples

DistributionMethod = Literal["bca", "percentile", "basic"]
"""Methods that need the statistic's distribution alone; studentizing needs a standard error of each resample too."""


def bootstrap(
    values: npt.ArrayLike,
    statistic: Statistic,
    *,
    method: DistributionMethod = "bca",
    level: float = 0.95,
    clusters: Labels | None = None,
    resamples: int = 10_000,
    rng: Seed = 0,
) -> BootstrapResult:
    """Return the bootstrap interval for any statistic of one sample.

    R: boot.ci(boot(values, statistic), type = method). `statistic(samples, axis=1)` gets one sample per row and must
    not depend on the order inside a sample. Rows of several columns are resampled whole (samples x observations x
    columns), for a ratio or a correlation. Clusters are resampled whole; below 20 of them the interval is too short.
    Raises NotEnoughData below two observations or five clusters.

    >>> result = bootstrap([0.1, 0.4, 0.5, 0.9, 0.3, 0.8, 0.7, 0.2, 0.6, 0.4], np.median, method="percentile", rng=1)
    >>> round(result.estimate, 2), result.source, result.seed
    (0.45, 'resampled', 1)
    """
    check_share(level, "level")
    check_choice(method, get_args(DistributionMethod), "method")
    check_draws(resamples, "resamples")
    array = observations(values)
    members = None if clusters is None else _cluster_members(clusters, len(array))
    count = None if members is None else len(members)
    check_size(len(array), count)
    acceleration = jackknife(array, statistic, clusters=clusters).acceleration if method == "bca" else None
    request = BootstrapResult(
        estimate=apply_to_sample(array, statistic),
        acceleration=acceleration,
        method=method,
        n=len(array),
        clusters=count,
    )
    # Clusters are drawn even when few: five or more of them leave too many observations to list.
    if members is None and len(array) <= MOST_LISTED:
        samples, counts = list_resamples(len(array))
        return _finish(request, apply_to_samples(array[samples], statistic), counts, level)
    generate, seed = generator(rng)
    replicates = _draw_statistics(array, statistic, members, resamples, generate)
    return _finish(request, replicates, None, level, resamples=resamples, seed=seed)


def _finish(
    request: BootstrapResult,
    replicates: Array,
    counts: Array | None,
    level: float,
    *,
    resamples: int | None = None,
    seed: int | None = None,
) -> BootstrapResult:
    request = replace(request, source="resampled" if resamples else "enumerated", resamples=resamples, seed=seed)
    undefined = np.isnan(replicates)
    if undefined.any():
        return mark_undefined(request, int(undefined.sum()), replicates.size)
    return complete_result(request, tabulate_draws(replicates, counts), level=level)


def _cluster_members(clusters: Labels, n: int) -> list[Codes]:
    """Return the observations of each cluster."""
    codes, count = cluster_codes(clusters, n)
    return [np.flatnonzero(codes == code) for code in range(count)]


def _draw_statistics(
    array: Array, statistic: Statistic, members: list[Codes] | None, resamples: int, rng: np.random.Generator
) -> Array:
    units = len(array) if members is None else len(members)
    pieces = []
    for block in index_blocks(units, resamples, rng):
        if members is None:
            pieces.append(apply_to_samples(array[block], statistic))
        else:
            # Clusters differ in size, hence resamples do too: take one at a time.
            rows = (np.concatenate([members[unit] for unit in row]) for row in block)
            pieces.append(np.array([apply_to_sample(array[row], statistic) for row in rows]))
    return np.concatenate(pieces)
