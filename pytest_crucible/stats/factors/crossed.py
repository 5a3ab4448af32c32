"""Means and differences of scores whose prompts, trainings and rounds are random factors, crossed with the samples.

score[sample, prompt, round] = mean + sample + prompt + round + their interactions and noise. Each factor's part of the
mean's variance is that of its level means, s^2 / levels: in a complete design the mean square of the analysis of
variance, over the number of scores (Searle, Casella & McCulloch 1992, ch. 4; Brennan 2001, ch. 3). The samples' part is
that of the sample means, or CR2 over clusters. The interaction of two factors is contained in both their parts and
counted twice, which errs on the safe side.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import ROUNDING, Array, Labels, Range
from pytest_crucible.stats.factors.level_bounds import LevelMeans, means_of_levels
from pytest_crucible.stats.factors.levels import level_means, level_source, mean_over, sample_means, samples_source
from pytest_crucible.stats.factors.sources import Source

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossedMean:
    """A mean and the sources of its random variation, the samples first."""

    estimate: float
    sources: tuple[Source, ...]
    means: Array
    """The mean of each sample that has a score."""
    clusters: Labels | None
    """The cluster of each sample in `means`."""
    cells: Array
    """The averaged scores (differences), samples x factors; NaN is lost."""
    levels: tuple[LevelMeans, ...]
    """The level means of each factor, in the order of `sources` after the samples."""

    @property
    def variance(self) -> float:
        """An estimate of the mean's variance, with each part counted once and none below 0."""
        samples, *factors = self.sources
        return samples.variance + sum(max(factor.variance - factor.floor, 0.0) for factor in factors)

    @property
    def parts(self) -> tuple[LevelMeans, ...]:
        """The means of the samples and of the levels of each factor, in the order of `sources`."""
        return LevelMeans(values=self.means, clusters=self.clusters), *self.levels


def crossed_mean(
    scores: npt.ArrayLike, factors: Sequence[str], clusters: Labels | None = None, *, fixed: Collection[str] = ()
) -> CrossedMean:
    """Return the mean of scores over samples (the first axis) and the named factors (the further axes, in order).

    Factors are random, except `fixed` ones: the mean is then about their levels alone. NaN is a lost score; samples
    without any score are left out. The mean is that of the samples' means. Raises ValueError if names and axes do not
    fit, and NotEnoughData below two samples, or five clusters.

    >>> scores = [[0.9, 0.7, 0.8], [0.5, 0.4, 0.3], [0.7, 0.6, 0.8], [0.6, 0.3, 0.6]]
    >>> mean = crossed_mean(scores, ["prompts"])
    >>> round(mean.estimate, 4), [(source.name, round(source.variance, 5)) for source in mean.sources]
    (0.6, [('samples', 0.00833), ('prompts', 0.00271)])
    """
    cells = _check(scores, factors)
    scored = _scored_samples(cells)
    return _with_sources(cells[scored], factors, _labels_at(clusters, scored), fixed, ())


def crossed_difference(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    factors: Sequence[str],
    clusters: Labels | None = None,
    *,
    fixed: Collection[str] = (),
    trainings: tuple[str, str] | None = None,
    fixed_trainings: bool = False,
    ends: Range | None = None,
) -> CrossedMean:
    """Return the mean of candidate - baseline over samples and factors that both arms share, paired cell by cell.

    With `trainings`, the names of both arms' trainings, the second axis of each arm is its own trainings: those are not
    paired, and there may be more of one arm; with `fixed_trainings` the difference is about these alone. `ends` are those of a
    score, for bounds over trainings. A cell without a score in either arm is left out. The rest is as in `crossed_mean`.

    >>> old, new = [[0.5, 0.4], [0.2, 0.4], [0.9, 0.8]], [[0.6, 0.6], [0.5, 0.4], [0.9, 1.0]]
    >>> round(crossed_difference(new, old, ["rounds"]).estimate, 4)
    0.1333
    """
    arms = [_check(scores, [*(["trainings"] if trainings else []), *factors]) for scores in (candidate, baseline)]
    averaged = [mean_over(arm, (1,)) if trainings else arm for arm in arms]
    cells = averaged[0] - averaged[1]
    # Equal scores differ by rounding if they were summed in another order.
    cells[np.abs(cells) <= ROUNDING * np.maximum(*np.abs(averaged))] = 0.0
    missing, scored = np.isnan(cells), _scored_samples(cells)
    labels = _labels_at(clusters, scored)
    own = [
        _Table(name, level_means(np.where(missing[:, None], np.nan, arm)[scored], 1), ends, sign)
        for arm, name, sign in zip(arms, trainings or (), (1.0, -1.0), strict=False)
        if arm.shape[1] > 1 and not fixed_trainings
    ]
    return _with_sources(cells[scored], factors, labels, fixed, own)


class _Table(NamedTuple):
    """The scores of samples x levels of one factor, with their ends where these are not those of the mean."""

    name: str
    scores: Array
    ends: Range | None = None
    sign: float = 1.0


def _with_sources(
    cells: Array, factors: Sequence[str], clusters: Labels | None, fixed: Collection[str], own: Sequence[_Table]
) -> CrossedMean:
    means = sample_means(cells)
    estimate, samples = samples_source(means, clusters)
    shared = [
        _Table(name, level_means(cells, axis))
        for axis, name in enumerate(factors, 1)
        if name not in fixed and cells.shape[axis] > 1
    ]
    tables = [*shared, *own]
    return CrossedMean(
        estimate=estimate,
        sources=(samples, *(level_source(table.scores, table.name, clusters) for table in tables)),
        means=means,
        clusters=clusters,
        cells=cells,
        levels=tuple(means_of_levels(table.scores, table.ends, table.sign) for table in tables),
    )


def _check(scores: npt.ArrayLike, factors: Sequence[str]) -> Array:
    cells = np.asarray(scores, dtype=np.float64)
    if cells.ndim != len(factors) + 1:
        raise ValueError(
            f"scores have {cells.ndim} axes for samples and {len(factors)} factors: give one axis for the samples, "
            "and then one for each factor"
        )
    infinite = int(np.isinf(cells).sum())
    if infinite:
        raise ValueError(f"{infinite} of {cells.size} scores are infinite; drop or replace them first")
    return cells


def _scored_samples(cells: Array) -> Flags:
    """Return the samples with a score in some cell."""
    return np.asarray(~np.isnan(cells).all(axis=tuple(range(1, cells.ndim))))


def _labels_at(clusters: Labels | None, scored: Flags) -> Labels | None:
    return None if clusters is None else [label for label, flag in zip(clusters, scored, strict=True) if flag]
