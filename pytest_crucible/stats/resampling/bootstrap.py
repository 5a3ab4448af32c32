"""The bootstrap of any statistic of one sample: listed up to eight observations, seeded resampling above.

For a mean, `bootstrap_mean` needs no resampling; for a median or another quantile `quantile_interval` is exact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import Array, Codes, Labels, check_choice, check_share, cluster_codes
from pytest_crucible.stats.resampling.bootstrapped import Bootstrapped, answered, check_size, no_interval
from pytest_crucible.stats.resampling.draws import Seed, check_draws, generator, index_blocks
from pytest_crucible.stats.resampling.exact_laws import MOST_LISTED, every_resample
from pytest_crucible.stats.resampling.jackknife import jackknife, observations
from pytest_crucible.stats.resampling.law import law_of_draws
from pytest_crucible.stats.resampling.statistic import Statistic, of_each, of_one

FromLaw = Literal["bca", "percentile", "basic"]
"""What the law of a statistic gives by itself; studentizing takes a standard error of each resample as well."""


def bootstrap(
    values: npt.ArrayLike,
    statistic: Statistic,
    *,
    method: FromLaw = "bca",
    level: float = 0.95,
    clusters: Labels | None = None,
    resamples: int = 10_000,
    rng: Seed = 0,
) -> Bootstrapped:
    """Bootstrap interval for any statistic of one sample; R: boot.ci(boot(values, statistic), type = method).

    `statistic(samples, axis=1)` gets one sample per row and must not depend on the order inside a sample. Rows of
    several columns are resampled whole (samples x observations x columns), for a ratio or a correlation. Clusters are
    resampled whole; below 20 of them the interval is too short. Raises NotEnoughData below two observations or five
    clusters.

    >>> result = bootstrap([0.1, 0.4, 0.5, 0.9, 0.3, 0.8, 0.7, 0.2, 0.6, 0.4], np.median, method="percentile", rng=1)
    >>> round(result.estimate, 2), result.source, result.seed
    (0.45, 'resampled', 1)
    """
    check_share(level, "level")
    check_choice(method, get_args(FromLaw), "method")
    check_draws(resamples, "resamples")
    array = observations(values)
    members = None if clusters is None else _members(clusters, len(array))
    count = None if members is None else len(members)
    check_size(len(array), count)
    acceleration = jackknife(array, statistic, clusters=clusters).acceleration if method == "bca" else None
    asked = Bootstrapped(
        estimate=of_one(array, statistic), acceleration=acceleration, method=method, n=len(array), clusters=count
    )
    if members is None and len(array) <= MOST_LISTED:
        samples, counts = every_resample(len(array))
        return _completed(asked, of_each(array[samples], statistic), counts, level)
    generate, seed = generator(rng)
    drawn = _drawn(array, statistic, members, resamples, generate)
    return _completed(asked, drawn, None, level, resamples=resamples, seed=seed)


def _completed(
    asked: Bootstrapped,
    found: Array,
    counts: Array | None,
    level: float,
    *,
    resamples: int | None = None,
    seed: int | None = None,
) -> Bootstrapped:
    asked = replace(asked, source="resampled" if resamples else "enumerated", resamples=resamples, seed=seed)
    undefined = np.isnan(found)
    if undefined.any():
        return no_interval(asked, int(undefined.sum()), found.size)
    return answered(asked, law_of_draws(found, counts), level=level)


def _members(clusters: Labels, n: int) -> list[Codes]:
    """Which observations each cluster has."""
    codes, count = cluster_codes(clusters, n)
    return [np.flatnonzero(codes == code) for code in range(count)]


def _drawn(
    array: Array, statistic: Statistic, members: list[Codes] | None, resamples: int, rng: np.random.Generator
) -> Array:
    units = len(array) if members is None else len(members)
    pieces = []
    for block in index_blocks(units, resamples, rng):
        if members is None:
            pieces.append(of_each(array[block], statistic))
        else:  # clusters differ in size, so that resamples do: one at a time
            rows = (np.concatenate([members[unit] for unit in row]) for row in block)
            pieces.append(np.array([of_one(array[row], statistic) for row in rows]))
    return np.concatenate(pieces)
